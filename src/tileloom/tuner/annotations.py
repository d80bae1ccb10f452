"""The notes that rules leave on loops and blocks, and that later steps and passes read.

The keys are TVM's, so that traces of both systems mean the same.
"""

from __future__ import annotations

#: On a block that a rule has tiled: how, such as "SSRSRS".
TILING_STRUCTURE = "meta_schedule.tiling_structure"
#: On a copy into shared memory: elements that a thread takes at a time.
COOPERATIVE_FETCH = "meta_schedule.cooperative_fetch"
#: On a tiled block: how many threads of a GPU's block may run it, both ends included.
FEWEST_THREADS = "meta_schedule.thread_extent_low_inclusive"
MOST_THREADS = "meta_schedule.thread_extent_high_inclusive"
#: On a block that a warp runs as one.
WARP_EXECUTION = "warp_execution"
#: On a root block: what its loops shall become, and how far.
PARALLEL = "meta_schedule.parallel"
VECTORIZE = "meta_schedule.vectorize"
UNROLL_EXPLICIT = "meta_schedule.unroll_explicit"
UNROLL_IMPLICIT = "meta_schedule.unroll_implicit"
#: On a block: the intrinsic that is to compute it, and the one for its start.
AUTO_TENSORIZE = "meta_schedule.auto_tensorize"
AUTO_TENSORIZE_INIT = "meta_schedule.auto_tensorize_init"
#: On a block that puts a constant input into another layout, to be run once and for all.
LAYOUT_REWRITE = "meta_schedule.layout_rewrite_preproc"
#: On a function: the numbers of its parameters whose layout is free.
LAYOUT_FREE_BUFFERS = "layout_free_buffers"
#: On a loop: serial loops in it with at most so many steps are written out, and whether here or by
#: the compiler of the machine code.
UNROLL_MAX_STEP = "pragma_auto_unroll_max_step"
UNROLL_HERE = "pragma_unroll_explicit"
#: On a loop that becomes a software pipeline: the stages whose copies are asynchronous.
ASYNC_STAGES = "software_pipeline_async_stages"
