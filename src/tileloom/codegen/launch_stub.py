"""LLVM IR of the function that checks addresses and launches kernels, in one call from Python.

`tileloom_cuda_launch(packet)` reads 64-bit words, which `runtime.cuda.packets` writes:

    0 context    1 addresses to check    2 pairs of arrays    3 launches
    4 (out) the launch that failed    5 place of the checks    6 place of the launches
    7 stream    8... values of the arguments

The checks are the places of addresses that must be multiples of 16, then for each pair of arrays
that must lie apart the place and bytes of one and of the other. A launch is its function, grid and
block as x, y, z each, bytes of dynamic shared memory, and the address of the array of pointers to
its arguments' values.

It returns the driver's code, or -1 for an address, -2 for a pair that overlaps.
"""

from __future__ import annotations

_IR = r"""
declare i32 @cuCtxGetCurrent(ptr)
declare i32 @cuCtxPushCurrent(ptr)
declare i32 @cuCtxPopCurrent(ptr)
declare i32 @cuLaunchKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)

define internal i64 @word(ptr %base, i64 %index) {
  %place = getelementptr i64, ptr %base, i64 %index
  %value = load i64, ptr %place
  ret i64 %value
}

define internal i32 @half(ptr %base, i64 %index) {
  %value = call i64 @word(ptr %base, i64 %index)
  %low = trunc i64 %value to i32
  ret i32 %low
}

; Whether two arrays share memory; a record is place, bytes, place, bytes.
define internal i1 @overlap(ptr %packet, ptr %record) {
  %a.place = call i64 @word(ptr %record, i64 0)
  %a.bytes = call i64 @word(ptr %record, i64 1)
  %b.place = call i64 @word(ptr %record, i64 2)
  %b.bytes = call i64 @word(ptr %record, i64 3)
  %a = call i64 @word(ptr %packet, i64 %a.place)
  %b = call i64 @word(ptr %packet, i64 %b.place)
  %a.end = add i64 %a, %a.bytes
  %b.end = add i64 %b, %b.bytes
  %a.first = icmp ult i64 %a, %b.end
  %b.first = icmp ult i64 %b, %a.end
  %both = and i1 %a.first, %b.first
  ret i1 %both
}

define internal i32 @check(ptr %packet) {
entry:
  %addresses = call i64 @word(ptr %packet, i64 1)
  %pairs = call i64 @word(ptr %packet, i64 2)
  %start = call i64 @word(ptr %packet, i64 5)
  %places = getelementptr i64, ptr %packet, i64 %start
  %records = getelementptr i64, ptr %places, i64 %addresses
  br label %address.head
address.head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %address ]
  %more = icmp ult i64 %k, %addresses
  br i1 %more, label %address, label %pair.head
address:
  %place = call i64 @word(ptr %places, i64 %k)
  %value = call i64 @word(ptr %packet, i64 %place)
  %rest = and i64 %value, 15
  %crooked = icmp ne i64 %rest, 0
  %k.next = add i64 %k, 1
  br i1 %crooked, label %bad.address, label %address.head
pair.head:
  %n = phi i64 [ 0, %address.head ], [ %n.next, %pair ]
  %further = icmp ult i64 %n, %pairs
  br i1 %further, label %pair, label %good
pair:
  %offset = mul i64 %n, 4
  %record = getelementptr i64, ptr %records, i64 %offset
  %shared = call i1 @overlap(ptr %packet, ptr %record)
  %n.next = add i64 %n, 1
  br i1 %shared, label %bad.pair, label %pair.head
good:
  ret i32 0
bad.address:
  ret i32 -1
bad.pair:
  ret i32 -2
}

define internal i32 @launch(ptr %record, ptr %stream) {
  %function.word = call i64 @word(ptr %record, i64 0)
  %function = inttoptr i64 %function.word to ptr
  %gx = call i32 @half(ptr %record, i64 1)
  %gy = call i32 @half(ptr %record, i64 2)
  %gz = call i32 @half(ptr %record, i64 3)
  %bx = call i32 @half(ptr %record, i64 4)
  %by = call i32 @half(ptr %record, i64 5)
  %bz = call i32 @half(ptr %record, i64 6)
  %shared = call i32 @half(ptr %record, i64 7)
  %values.word = call i64 @word(ptr %record, i64 8)
  %values = inttoptr i64 %values.word to ptr
  %code = call i32 @cuLaunchKernel(ptr %function, i32 %gx, i32 %gy, i32 %gz, i32 %bx, i32 %by,
      i32 %bz, i32 %shared, ptr %stream, ptr %values, ptr null)
  ret i32 %code
}

define internal i32 @launches(ptr %packet) {
entry:
  %count = call i64 @word(ptr %packet, i64 3)
  %start = call i64 @word(ptr %packet, i64 6)
  %first = getelementptr i64, ptr %packet, i64 %start
  %stream.word = call i64 @word(ptr %packet, i64 7)
  %stream = inttoptr i64 %stream.word to ptr
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k.next, %body ]
  %code.before = phi i32 [ 0, %entry ], [ %code, %body ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %body, label %done
body:
  %offset = mul i64 %k, 9
  %record = getelementptr i64, ptr %first, i64 %offset
  %code = call i32 @launch(ptr %record, ptr %stream)
  %k.next = add i64 %k, 1
  %good = icmp eq i32 %code, 0
  br i1 %good, label %head, label %failed
failed:
  %out = getelementptr i64, ptr %packet, i64 4
  store i64 %k, ptr %out
  ret i32 %code
done:
  ret i32 %code.before
}

define i32 @tileloom_cuda_launch(ptr %packet) {
entry:
  %now.place = alloca ptr
  store ptr null, ptr %now.place
  %none = getelementptr i64, ptr %packet, i64 4
  store i64 -1, ptr %none
  %wrong = call i32 @check(ptr %packet)
  %right = icmp eq i32 %wrong, 0
  br i1 %right, label %ask, label %refuse
refuse:
  ret i32 %wrong
ask:
  %asked = call i32 @cuCtxGetCurrent(ptr %now.place)
  %known = icmp eq i32 %asked, 0
  br i1 %known, label %compare, label %unknown
unknown:
  ret i32 %asked
compare:
  %now = load ptr, ptr %now.place
  %wanted.word = call i64 @word(ptr %packet, i64 0)
  %wanted = inttoptr i64 %wanted.word to ptr
  %same = icmp eq ptr %now, %wanted
  br i1 %same, label %here, label %push
here:
  %code.here = call i32 @launches(ptr %packet)
  ret i32 %code.here
push:
  %pushed = call i32 @cuCtxPushCurrent(ptr %wanted)
  %entered = icmp eq i32 %pushed, 0
  br i1 %entered, label %there, label %not.entered
not.entered:
  ret i32 %pushed
there:
  %code.there = call i32 @launches(ptr %packet)
  %popped = call i32 @cuCtxPopCurrent(ptr %now.place)
  %launched = icmp ne i32 %code.there, 0
  %code = select i1 %launched, i32 %code.there, i32 %popped
  ret i32 %code
}
"""


def source() -> str:
    """The module's text."""
    return _IR
