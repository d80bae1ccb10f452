"""LLVM IR of the C function behind every kernel call from Python.

`tileloom_entry(self, args, nargs)` is a METH_FASTCALL function. It is the same for all kernels:
`self` is a tuple of a descriptor (bytes), the slow way (a callable that takes the same arguments)
and the error raiser (a callable that takes an assertion's number). The function checks the
arguments against the descriptor and calls the kernel. Whatever it does not know or like, it hands
to the slow way, which either finds the argument good after all or says what is wrong.

The descriptor is a row of 64-bit words; `runtime.entry` writes it:

    header: kernel, parameters, arguments, symbols, bytes of work above which the GIL is released
    then for each parameter a record of 9 words, followed by its extents, then by its strides:
        kind, words in the record, symbol + 1 or 0, alignment - 1, dimensions,
        for buffers: dtype object, required flags, item size, written
        for integers: least value, greatest value, -, -

An extent below zero stands for symbol -1-extent: the first use binds it, later ones must agree.
The kernel gets an array of pointers: to a buffer's data, or to a scalar's value (little-endian, so
that 64 bits serve narrower integers too).
"""

from __future__ import annotations

COMPACT, STRIDED, INTEGER, FLOAT32, FLOAT64, IMPLICIT, SLOW = range(7)

# Places of the fields in PyObject and PyArrayObject; runtime.entry checks that they are right.
_IR = r"""
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyBytes_AsString(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyLong_FromLong(i64)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
@_Py_NoneStruct = external global ptr
@tileloom_ndarray = external global ptr
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)

; Call the kernel, without the GIL if there is much to do, and turn its number into a result.
define internal ptr @finish(ptr %self, ptr %kernel, ptr %pointers, i1 %long) {
entry:
  br i1 %long, label %away, label %here
away:
  %thread = call ptr @PyEval_SaveThread()
  %number.away = call i32 %kernel(ptr %pointers)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %check
here:
  %number.here = call i32 %kernel(ptr %pointers)
  br label %check
check:
  %number = phi i32 [ %number.away, %away ], [ %number.here, %here ]
  %good = icmp eq i32 %number, 0
  br i1 %good, label %none, label %fail
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
fail:
  %wide = sext i32 %number to i64
  %object = call ptr @PyLong_FromLong(i64 %wide)
  %raiser = call ptr @PyTuple_GetItem(ptr %self, i64 2)
  %result = call ptr @PyObject_CallOneArg(ptr %raiser, ptr %object)
  call void @Py_DecRef(ptr %object)
  ret ptr %result
}

; One argument: the address of an array of pointers. No checks.
define ptr @tileloom_launch(ptr %self, ptr %args, i64 %nargs) {
entry:
  %one = icmp eq i64 %nargs, 1
  br i1 %one, label %read, label %slow
read:
  %object = load ptr, ptr %args
  %pointers = call ptr @PyLong_AsVoidPtr(ptr %object)
  %missing = icmp eq ptr %pointers, null
  br i1 %missing, label %wrong, label %go
wrong:
  call void @PyErr_Clear()
  br label %slow
go:
  %bytes = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %words = call ptr @PyBytes_AsString(ptr %bytes)
  %kernel = load ptr, ptr %words
  %result = call ptr @finish(ptr %self, ptr %kernel, ptr %pointers, i1 true)
  ret ptr %result
slow:
  %way = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %answer = call ptr @PyObject_Vectorcall(ptr %way, ptr %args, i64 %nargs, ptr null)
  ret ptr %answer
}

; Bind a symbol or compare it with what it is bound to; any value that 32 bits cannot hold is
; left to the slow way.
define internal i1 @bind(ptr %symbols, i64 %index, i64 %value) {
entry:
  %place = getelementptr i64, ptr %symbols, i64 %index
  %bound = load i64, ptr %place
  %unbound = icmp eq i64 %bound, -1
  br i1 %unbound, label %set, label %compare
set:
  store i64 %value, ptr %place
  %small = icmp ult i64 %value, 2147483648
  ret i1 %small
compare:
  %same = icmp eq i64 %bound, %value
  ret i1 %same
}

; Whether extents and strides are as described; %compact means that flags vouch for the strides.
; The bytes from the first to past the last element go to %span.
define internal i1 @match_shape(ptr %array, ptr %record, i64 %rank, i1 %compact, ptr %symbols,
                                ptr %span) {
entry:
  %item.place = getelementptr i64, ptr %record, i64 7
  %item = load i64, ptr %item.place
  %shape.place = getelementptr i8, ptr %array, i64 32
  %shape = load ptr, ptr %shape.place
  %strides.place = getelementptr i8, ptr %array, i64 40
  %strides = load ptr, ptr %strides.place
  %extents = getelementptr i64, ptr %record, i64 9
  %steps = getelementptr i64, ptr %extents, i64 %rank
  br label %head
head:
  %axis = phi i64 [ 0, %entry ], [ %axis.next, %advance ]
  %count = phi i64 [ 1, %entry ], [ %count.next, %advance ]
  %reach = phi i64 [ %item, %entry ], [ %reach.next, %advance ]
  %more = icmp slt i64 %axis, %rank
  br i1 %more, label %extent, label %done
extent:
  %extent.place = getelementptr i64, ptr %shape, i64 %axis
  %actual = load i64, ptr %extent.place
  %wanted.place = getelementptr i64, ptr %extents, i64 %axis
  %wanted = load i64, ptr %wanted.place
  %constant = icmp sge i64 %wanted, 0
  br i1 %constant, label %equal, label %symbolic
symbolic:
  %index = sub i64 -1, %wanted
  %agrees = call i1 @bind(ptr %symbols, i64 %index, i64 %actual)
  br i1 %agrees, label %stride, label %refuse
equal:
  %same = icmp eq i64 %wanted, %actual
  br i1 %same, label %stride, label %refuse
stride:
  %count.next = mul i64 %count, %actual
  br i1 %compact, label %advance, label %compare
compare:
  %step.place = getelementptr i64, ptr %strides, i64 %axis
  %step = load i64, ptr %step.place
  %step.wanted.place = getelementptr i64, ptr %steps, i64 %axis
  %step.wanted = load i64, ptr %step.wanted.place
  %step.same = icmp eq i64 %step, %step.wanted
  %single = icmp ule i64 %actual, 1
  %fits = or i1 %step.same, %single
  %last = sub i64 %actual, 1
  %far = mul i64 %last, %step.wanted
  %far.counted = select i1 %single, i64 0, i64 %far
  %reach.more = add i64 %reach, %far.counted
  br i1 %fits, label %advance, label %refuse
advance:
  %reach.next = phi i64 [ %reach, %stride ], [ %reach.more, %compare ]
  %axis.next = add i64 %axis, 1
  br label %head
done:
  %all = mul i64 %count, %item
  %empty = icmp eq i64 %count, 0
  %whole = select i1 %compact, i64 %all, i64 %reach
  %bytes = select i1 %empty, i64 0, i64 %whole
  store i64 %bytes, ptr %span
  ret i1 true
refuse:
  ret i1 false
}

; Check one array; its data pointer, or null.
define internal ptr @match_buffer(ptr %array, ptr %record, i1 %compact, ptr %symbols, ptr %span) {
entry:
  %type.place = getelementptr i8, ptr %array, i64 8
  %type = load ptr, ptr %type.place
  %is.array = icmp eq ptr %type, @tileloom_ndarray
  br i1 %is.array, label %fields, label %refuse
fields:
  %data.place = getelementptr i8, ptr %array, i64 16
  %data = load ptr, ptr %data.place
  %rank.place = getelementptr i8, ptr %array, i64 24
  %rank.narrow = load i32, ptr %rank.place
  %rank = sext i32 %rank.narrow to i64
  %dtype.place = getelementptr i8, ptr %array, i64 56
  %dtype = load ptr, ptr %dtype.place
  %flags.place = getelementptr i8, ptr %array, i64 64
  %flags.narrow = load i32, ptr %flags.place
  %flags = sext i32 %flags.narrow to i64
  %mask.place = getelementptr i64, ptr %record, i64 3
  %mask = load i64, ptr %mask.place
  %rank.wanted.place = getelementptr i64, ptr %record, i64 4
  %rank.wanted = load i64, ptr %rank.wanted.place
  %dtype.wanted.place = getelementptr i64, ptr %record, i64 5
  %dtype.wanted = load ptr, ptr %dtype.wanted.place
  %flags.wanted.place = getelementptr i64, ptr %record, i64 6
  %flags.wanted = load i64, ptr %flags.wanted.place
  %address = ptrtoint ptr %data to i64
  %off = and i64 %address, %mask
  %present = and i64 %flags, %flags.wanted
  %aligned = icmp eq i64 %off, 0
  %rank.same = icmp eq i64 %rank, %rank.wanted
  %dtype.same = icmp eq ptr %dtype, %dtype.wanted
  %flags.there = icmp eq i64 %present, %flags.wanted
  %good0 = and i1 %aligned, %rank.same
  %good1 = and i1 %dtype.same, %flags.there
  %good = and i1 %good0, %good1
  br i1 %good, label %shape, label %refuse
shape:
  %fits = call i1 @match_shape(ptr %array, ptr %record, i64 %rank, i1 %compact, ptr %symbols,
                               ptr %span)
  br i1 %fits, label %accept, label %refuse
accept:
  ret ptr %data
refuse:
  ret ptr null
}

; Read one number into %slot; integers in range, and equal to their symbol if they have one.
define internal i1 @match_scalar(ptr %object, ptr %record, i64 %kind, ptr %symbols, ptr %slot) {
entry:
  %whole = icmp eq i64 %kind, 2
  br i1 %whole, label %integer, label %real
integer:
  %value = call i64 @PyLong_AsLongLong(ptr %object)
  %suspect = icmp eq i64 %value, -1
  br i1 %suspect, label %error, label %range
error:
  %raised = call ptr @PyErr_Occurred()
  %bad = icmp ne ptr %raised, null
  br i1 %bad, label %clear, label %range
range:
  %least.place = getelementptr i64, ptr %record, i64 5
  %least = load i64, ptr %least.place
  %most.place = getelementptr i64, ptr %record, i64 6
  %most = load i64, ptr %most.place
  %above = icmp sge i64 %value, %least
  %below = icmp sle i64 %value, %most
  %inside = and i1 %above, %below
  br i1 %inside, label %symbol, label %refuse
symbol:
  store i64 %value, ptr %slot
  %symbol.place = getelementptr i64, ptr %record, i64 2
  %symbol.next = load i64, ptr %symbol.place
  %plain = icmp eq i64 %symbol.next, 0
  br i1 %plain, label %accept, label %agree
agree:
  %index = sub i64 %symbol.next, 1
  %agrees = call i1 @bind(ptr %symbols, i64 %index, i64 %value)
  ret i1 %agrees
real:
  %wide = call double @PyFloat_AsDouble(ptr %object)
  %doubtful = fcmp oeq double %wide, -1.0
  br i1 %doubtful, label %real.error, label %store
real.error:
  %real.raised = call ptr @PyErr_Occurred()
  %real.bad = icmp ne ptr %real.raised, null
  br i1 %real.bad, label %clear, label %store
store:
  %double = icmp eq i64 %kind, 4
  br i1 %double, label %store.double, label %store.single
store.double:
  store double %wide, ptr %slot
  ret i1 true
store.single:
  ; A finite number may be too large; NaN and infinities are themselves.
  %narrow = fptrunc double %wide to float
  %size.narrow = call float @llvm.fabs.f32(float %narrow)
  %size.wide = call double @llvm.fabs.f64(double %wide)
  %endless = fcmp oeq float %size.narrow, 0x7FF0000000000000
  %finite = fcmp olt double %size.wide, 0x7FF0000000000000
  %too.large = and i1 %endless, %finite
  store float %narrow, ptr %slot
  br i1 %too.large, label %refuse, label %accept
clear:
  call void @PyErr_Clear()
  br label %refuse
accept:
  ret i1 true
refuse:
  ret i1 false
}

; Whether buffer %number and an earlier one share memory and one of them is written.
define internal i1 @overlaps(ptr %starts, ptr %ends, ptr %written, i64 %number) {
entry:
  %start.place = getelementptr i64, ptr %starts, i64 %number
  %start = load i64, ptr %start.place
  %end.place = getelementptr i64, ptr %ends, i64 %number
  %end = load i64, ptr %end.place
  %write.place = getelementptr i64, ptr %written, i64 %number
  %write = load i64, ptr %write.place
  br label %head
head:
  %other = phi i64 [ 0, %entry ], [ %next, %compare ]
  %more = icmp slt i64 %other, %number
  br i1 %more, label %compare, label %apart
compare:
  %other.start.place = getelementptr i64, ptr %starts, i64 %other
  %other.start = load i64, ptr %other.start.place
  %other.end.place = getelementptr i64, ptr %ends, i64 %other
  %other.end = load i64, ptr %other.end.place
  %other.write.place = getelementptr i64, ptr %written, i64 %other
  %other.write = load i64, ptr %other.write.place
  %any = or i64 %write, %other.write
  %matters = icmp ne i64 %any, 0
  %before = icmp ult i64 %start, %other.end
  %after = icmp ult i64 %other.start, %end
  %touch = and i1 %before, %after
  %clash = and i1 %touch, %matters
  %next = add i64 %other, 1
  br i1 %clash, label %together, label %head
together:
  ret i1 true
apart:
  ret i1 false
}

define ptr @tileloom_entry(ptr %self, ptr %args, i64 %nargs) {
entry:
  %bytes = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %words = call ptr @PyBytes_AsString(ptr %bytes)
  %arguments.place = getelementptr i64, ptr %words, i64 2
  %arguments = load i64, ptr %arguments.place
  %right.count = icmp eq i64 %nargs, %arguments
  br i1 %right.count, label %prepare, label %slow
prepare:
  %kernel = load ptr, ptr %words
  %count.place = getelementptr i64, ptr %words, i64 1
  %count = load i64, ptr %count.place
  %symbol.count.place = getelementptr i64, ptr %words, i64 3
  %symbol.count = load i64, ptr %symbol.count.place
  %limit.place = getelementptr i64, ptr %words, i64 4
  %limit = load i64, ptr %limit.place
  %pointers = alloca ptr, i64 %count
  %slots = alloca i64, i64 %count
  %starts = alloca i64, i64 %count
  %ends = alloca i64, i64 %count
  %written = alloca i64, i64 %count
  %symbols = alloca i64, i64 %symbol.count
  %span = alloca i64
  %symbol.bytes = shl i64 %symbol.count, 3
  call void @llvm.memset.p0.i64(ptr %symbols, i8 -1, i64 %symbol.bytes, i1 false)
  %first = getelementptr i64, ptr %words, i64 5
  br label %head
head:
  %number = phi i64 [ 0, %prepare ], [ %number.next, %advance ]
  %taken = phi i64 [ 0, %prepare ], [ %taken.next, %advance ]
  %buffers = phi i64 [ 0, %prepare ], [ %buffers.next, %advance ]
  %work = phi i64 [ 0, %prepare ], [ %work.next, %advance ]
  %record = phi ptr [ %first, %prepare ], [ %record.next, %advance ]
  %more = icmp slt i64 %number, %count
  br i1 %more, label %parameter, label %run
parameter:
  %kind = load i64, ptr %record
  %size.place = getelementptr i64, ptr %record, i64 1
  %size = load i64, ptr %size.place
  %record.next = getelementptr i64, ptr %record, i64 %size
  %number.next = add i64 %number, 1
  %pointer.place = getelementptr ptr, ptr %pointers, i64 %number
  switch i64 %kind, label %slow [ i64 0, label %buffer
                                  i64 1, label %buffer
                                  i64 2, label %scalar
                                  i64 3, label %scalar
                                  i64 4, label %scalar
                                  i64 5, label %implicit ]
buffer:
  %array.place = getelementptr ptr, ptr %args, i64 %taken
  %array = load ptr, ptr %array.place
  %compact = icmp eq i64 %kind, 0
  %data = call ptr @match_buffer(ptr %array, ptr %record, i1 %compact, ptr %symbols, ptr %span)
  %refused = icmp eq ptr %data, null
  br i1 %refused, label %slow, label %note
note:
  store ptr %data, ptr %pointer.place
  %extent = load i64, ptr %span
  %start = ptrtoint ptr %data to i64
  %end = add i64 %start, %extent
  %start.place = getelementptr i64, ptr %starts, i64 %buffers
  store i64 %start, ptr %start.place
  %end.place = getelementptr i64, ptr %ends, i64 %buffers
  store i64 %end, ptr %end.place
  %write.place = getelementptr i64, ptr %record, i64 8
  %write = load i64, ptr %write.place
  %written.place = getelementptr i64, ptr %written, i64 %buffers
  store i64 %write, ptr %written.place
  %clash = call i1 @overlaps(ptr %starts, ptr %ends, ptr %written, i64 %buffers)
  %buffers.more = add i64 %buffers, 1
  %work.more = add i64 %work, %extent
  %taken.buffer = add i64 %taken, 1
  br i1 %clash, label %slow, label %advance
scalar:
  %object.place = getelementptr ptr, ptr %args, i64 %taken
  %object = load ptr, ptr %object.place
  %slot = getelementptr i64, ptr %slots, i64 %number
  store ptr %slot, ptr %pointer.place
  %fits = call i1 @match_scalar(ptr %object, ptr %record, i64 %kind, ptr %symbols, ptr %slot)
  %taken.scalar = add i64 %taken, 1
  br i1 %fits, label %advance, label %slow
implicit:
  %symbol.place = getelementptr i64, ptr %record, i64 2
  %symbol.next = load i64, ptr %symbol.place
  %symbol = sub i64 %symbol.next, 1
  %symbol.slot = getelementptr i64, ptr %symbols, i64 %symbol
  store ptr %symbol.slot, ptr %pointer.place
  br label %advance
advance:
  %taken.next = phi i64 [ %taken.buffer, %note ], [ %taken.scalar, %scalar ], [ %taken, %implicit ]
  %buffers.next = phi i64 [ %buffers.more, %note ], [ %buffers, %scalar ], [ %buffers, %implicit ]
  %work.next = phi i64 [ %work.more, %note ], [ %work, %scalar ], [ %work, %implicit ]
  br label %head
run:
  %long = icmp sgt i64 %work, %limit
  %result = call ptr @finish(ptr %self, ptr %kernel, ptr %pointers, i1 %long)
  ret ptr %result
slow:
  %way = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %answer = call ptr @PyObject_Vectorcall(ptr %way, ptr %args, i64 %nargs, ptr null)
  ret ptr %answer
}
"""


def source() -> str:
    """The module's LLVM IR, the same for every machine of 64 bits and every Python version."""
    return _IR
