"""LLVM IR of `tileloom_parallel`, which runs the bodies of parallel loops on threads.

Two ways share one door and one state block, which `runtime.parallel` fills in: an OpenMP runtime
through `GOMP_parallel`, and a small pool of our own on pthreads for processes without one and for
children of a fork, where libgomp would wait for threads that no longer exist.

How the pool works: the caller writes the region and raises `generation`; every worker sees the new
number, runs its part if it has one, and lowers `pending`. Workers and caller first spin for a
bounded while, then sleep on a condition variable. A region that finds the pool taken (it is nested,
or another thread's) runs on its own thread alone.

Schedulers like to wake a thread where its waker runs, and then both share one core while another
idles: a region cost 25 us so, against 0.4 us side by side. Hence workers keep off the caller's
core: when it has moved, each takes that core, and nothing else, out of its affinity.
"""

from __future__ import annotations

# Tells the processor that we spin, and its declaration.
_PAUSE = {
    "x86_64": ("call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"),
    "aarch64": ("call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)"),
}

# Fields of %state, in order; runtime.parallel mirrors the first seven.
STATE = r"""
; 0 threads, 1 mode (0 serial, 1 OpenMP, 2 pool), 2 spins, 3..6 the OpenMP functions,
; 7 generation, 8 pending, 9 taken, 10 started, 11 body, 12 context, 13 workers,
; 14 the caller's core
%state = type { i32, i32, i32, ptr, ptr, ptr, ptr, i32, i32, i32, i32, ptr, ptr, i32, i32 }
@state = internal global %state { i32 1, i32 0, i32 0, ptr null, ptr null, ptr null, ptr null,
  i32 0, i32 0, i32 0, i32 0, ptr null, ptr null, i32 0, i32 -1 }, align 64
; Zeros are what PTHREAD_MUTEX_INITIALIZER and PTHREAD_COND_INITIALIZER stand for on Linux.
@mutex = internal global [64 x i8] zeroinitializer, align 64
@wake = internal global [64 x i8] zeroinitializer, align 64
@finished = internal global [64 x i8] zeroinitializer, align 64

@threads = internal alias i32, getelementptr (%state, ptr @state, i32 0, i32 0)
@mode = internal alias i32, getelementptr (%state, ptr @state, i32 0, i32 1)
@spins = internal alias i32, getelementptr (%state, ptr @state, i32 0, i32 2)
@omp_parallel = internal alias ptr, getelementptr (%state, ptr @state, i32 0, i32 3)
@omp_number = internal alias ptr, getelementptr (%state, ptr @state, i32 0, i32 4)
@omp_count = internal alias ptr, getelementptr (%state, ptr @state, i32 0, i32 5)
@omp_inside = internal alias ptr, getelementptr (%state, ptr @state, i32 0, i32 6)
@generation = internal alias i32, getelementptr (%state, ptr @state, i32 0, i32 7)
@pending = internal alias i32, getelementptr (%state, ptr @state, i32 0, i32 8)
@taken = internal alias i32, getelementptr (%state, ptr @state, i32 0, i32 9)
@started = internal alias i32, getelementptr (%state, ptr @state, i32 0, i32 10)
@body = internal alias ptr, getelementptr (%state, ptr @state, i32 0, i32 11)
@context = internal alias ptr, getelementptr (%state, ptr @state, i32 0, i32 12)
@workers = internal alias i32, getelementptr (%state, ptr @state, i32 0, i32 13)
@home = internal alias i32, getelementptr (%state, ptr @state, i32 0, i32 14)

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @llvm.smin.i32(i32, i32)
"""

DOOR = r"""
define ptr @tileloom_parallel_state() {
  ret ptr @state
}

; Run body(ctx, worker, workers) for each worker; at most max_workers of them if that is positive.
define i32 @tileloom_parallel(ptr %body, ptr %ctx, i32 %max_workers) {
entry:
  %threads = load i32, ptr @threads
  %limited = icmp sgt i32 %max_workers, 0
  %lower = call i32 @llvm.smin.i32(i32 %threads, i32 %max_workers)
  %count = select i1 %limited, i32 %lower, i32 %threads
  %many = icmp sgt i32 %count, 1
  br i1 %many, label %choose, label %serial
choose:
  %mode = load i32, ptr @mode
  switch i32 %mode, label %serial [ i32 1, label %openmp
                                    i32 2, label %pool ]
openmp:
  %inside_function = load ptr, ptr @omp_inside
  %inside = call i32 %inside_function()
  %nested = icmp ne i32 %inside, 0
  br i1 %nested, label %serial, label %fork
fork:
  %region = alloca { ptr, ptr }
  store ptr %body, ptr %region
  %second = getelementptr { ptr, ptr }, ptr %region, i32 0, i32 1
  store ptr %ctx, ptr %second
  %parallel = load ptr, ptr @omp_parallel
  call void %parallel(ptr @openmp_worker, ptr %region, i32 %count, i32 0)
  ret i32 0
pool:
  %done = call i1 @pool_run(ptr %body, ptr %ctx, i32 %count)
  br i1 %done, label %finish, label %serial
finish:
  ret i32 0
serial:
  call void %body(ptr %ctx, i32 0, i32 1)
  ret i32 0
}

define internal void @openmp_worker(ptr %region) {
  %number_function = load ptr, ptr @omp_number
  %count_function = load ptr, ptr @omp_count
  %worker = call i32 %number_function()
  %count = call i32 %count_function()
  %body = load ptr, ptr %region
  %second = getelementptr { ptr, ptr }, ptr %region, i32 0, i32 1
  %ctx = load ptr, ptr %second
  call void %body(ptr %ctx, i32 %worker, i32 %count)
  ret void
}
"""

POOL = r"""
; In the child of a fork no worker is left, and the locks may be held by threads that are gone.
define void @tileloom_parallel_forget() {
  store i32 0, ptr @started
  store i32 0, ptr @pending
  store i32 0, ptr @taken
  call void @llvm.memset.p0.i64(ptr @mutex, i8 0, i64 64, i1 false)
  call void @llvm.memset.p0.i64(ptr @wake, i8 0, i64 64, i1 false)
  call void @llvm.memset.p0.i64(ptr @finished, i8 0, i64 64, i1 false)
  ret void
}

; False if the pool is taken or has no second thread: nothing was run then.
define internal i1 @pool_run(ptr %body, ptr %ctx, i32 %wanted) {
entry:
  %claim = cmpxchg ptr @taken, i32 0, i32 1 acquire monotonic
  %claimed = extractvalue { i32, i1 } %claim, 1
  br i1 %claimed, label %hire, label %refuse
refuse:
  ret i1 false
hire:
  %started = call i32 @pool_hire(i32 %wanted)
  %alone = icmp eq i32 %started, 0
  br i1 %alone, label %release, label %announce
release:
  store atomic i32 0, ptr @taken release, align 4
  ret i1 false
announce:
  %able = add i32 %started, 1
  %count = call i32 @llvm.smin.i32(i32 %wanted, i32 %able)
  %l0 = call i32 @pthread_mutex_lock(ptr @mutex)
  store ptr %body, ptr @body
  store ptr %ctx, ptr @context
  store i32 %count, ptr @workers
  %core = call i32 @sched_getcpu()
  store i32 %core, ptr @home
  ; Idle workers answer too, else a late one could take the next region for this one.
  store atomic i32 %started, ptr @pending monotonic, align 4
  %old = load atomic i32, ptr @generation monotonic, align 4
  %new = add i32 %old, 1
  store atomic i32 %new, ptr @generation release, align 4
  %l1 = call i32 @pthread_cond_broadcast(ptr @wake)
  %l2 = call i32 @pthread_mutex_unlock(ptr @mutex)
  call void %body(ptr %ctx, i32 0, i32 %count)
  call void @await_change(ptr @pending, i32 0, i1 false, ptr @finished)
  store atomic i32 0, ptr @taken release, align 4
  ret i1 true
}

; Start threads until there are wanted - 1; the number there are.
define internal i32 @pool_hire(i32 %wanted) {
entry:
  %thread = alloca i64
  %generation = load atomic i32, ptr @generation monotonic, align 4
  br label %check
check:
  %have = load i32, ptr @started
  %next = add i32 %have, 1
  %enough = icmp sge i32 %next, %wanted
  br i1 %enough, label %done, label %start
start:
  ; A worker is told its number and the last region that is not for it.
  %low = zext i32 %next to i64
  %high = zext i32 %generation to i64
  %shifted = shl i64 %high, 32
  %packed = or i64 %shifted, %low
  %argument = inttoptr i64 %packed to ptr
  %error = call i32 @pthread_create(ptr %thread, ptr null, ptr @pool_worker, ptr %argument)
  %failed = icmp ne i32 %error, 0
  br i1 %failed, label %done, label %started
started:
  %id = load i64, ptr %thread
  %l0 = call i32 @pthread_detach(i64 %id)
  store i32 %next, ptr @started
  br label %check
done:
  ret i32 %have
}

define internal ptr @pool_worker(ptr %argument) {
entry:
  %packed = ptrtoint ptr %argument to i64
  %number = trunc i64 %packed to i32
  %shifted = lshr i64 %packed, 32
  %first = trunc i64 %shifted to i32
  ; The cores that this thread may use, in cpu_set_t's 1024 bits.
  %allowed = alloca [16 x i64], align 8
  call void @llvm.memset.p0.i64(ptr %allowed, i8 0, i64 128, i1 false)
  %got = call i32 @sched_getaffinity(i32 0, i64 128, ptr %allowed)
  br label %wait
wait:
  %seen = phi i32 [ %first, %entry ], [ %now, %wait.back ]
  %avoided = phi i32 [ -1, %entry ], [ %core, %wait.back ]
  call void @await_change(ptr @generation, i32 %seen, i1 true, ptr @wake)
  %now = load atomic i32, ptr @generation acquire, align 4
  %core = load i32, ptr @home
  %moved = icmp ne i32 %core, %avoided
  br i1 %moved, label %avoid, label %choose
avoid:
  call void @pool_avoid(ptr %allowed, i32 %core)
  br label %choose
choose:
  %workers = load i32, ptr @workers
  %mine = icmp slt i32 %number, %workers
  br i1 %mine, label %work, label %answer
work:
  %body = load ptr, ptr @body
  %ctx = load ptr, ptr @context
  call void %body(ptr %ctx, i32 %number, i32 %workers)
  br label %answer
answer:
  %before = atomicrmw sub ptr @pending, i32 1 acq_rel
  %last = icmp eq i32 %before, 1
  br i1 %last, label %tell, label %wait.back
tell:
  %l0 = call i32 @pthread_mutex_lock(ptr @mutex)
  %l1 = call i32 @pthread_cond_broadcast(ptr @finished)
  %l2 = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %wait.back
wait.back:
  br label %wait
}

; Keep this thread off one of its allowed cores, unless there is no other.
define internal void @pool_avoid(ptr %allowed, i32 %core) {
entry:
  %rest = alloca [16 x i64], align 8
  %known = icmp ult i32 %core, 1024
  br i1 %known, label %copy, label %done
copy:
  %word = lshr i32 %core, 6
  %bit = and i32 %core, 63
  %bit.wide = zext i32 %bit to i64
  %one = shl i64 1, %bit.wide
  %others = xor i64 %one, -1
  br label %head
head:
  %at = phi i32 [ 0, %copy ], [ %next, %head ]
  %any = phi i64 [ 0, %copy ], [ %any.next, %head ]
  %from = getelementptr i64, ptr %allowed, i32 %at
  %to = getelementptr i64, ptr %rest, i32 %at
  %old = load i64, ptr %from
  %cleared = and i64 %old, %others
  %here = icmp eq i32 %at, %word
  %new = select i1 %here, i64 %cleared, i64 %old
  store i64 %new, ptr %to
  %any.next = or i64 %any, %new
  %next = add i32 %at, 1
  %more = icmp ult i32 %next, 16
  br i1 %more, label %head, label %apply
apply:
  %none = icmp eq i64 %any.next, 0
  br i1 %none, label %done, label %set
set:
  %r = call i32 @sched_setaffinity(i32 0, i64 128, ptr %rest)
  br label %done
done:
  ret void
}

; Wait while (*place == value) is while_equal: spin first, then sleep.
define internal void @await_change(ptr %place, i32 %value, i1 %while_equal, ptr %condition) {
entry:
  %limit = load i32, ptr @spins
  br label %spin
spin:
  %round = phi i32 [ 0, %entry ], [ %next, %again ]
  %now = load atomic i32, ptr %place acquire, align 4
  %equal = icmp eq i32 %now, %value
  %waiting = icmp eq i1 %equal, %while_equal
  br i1 %waiting, label %count, label %done
count:
  %spent = icmp sge i32 %round, %limit
  br i1 %spent, label %sleep, label %again
again:
  PAUSE
  %next = add i32 %round, 1
  br label %spin
sleep:
  %l0 = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %recheck
recheck:
  %later = load atomic i32, ptr %place acquire, align 4
  %still = icmp eq i32 %later, %value
  %asleep = icmp eq i1 %still, %while_equal
  br i1 %asleep, label %doze, label %leave
doze:
  %l1 = call i32 @pthread_cond_wait(ptr %condition, ptr @mutex)
  br label %recheck
leave:
  %l2 = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %done
done:
  ret void
}
"""


def source(arch: str) -> str:
    """The module's LLVM IR for an architecture, `"x86_64"` or `"aarch64"`."""
    pause, declaration = _PAUSE.get(arch, ("", ""))
    return STATE + DOOR + POOL.replace("PAUSE", pause) + declaration
