"""`tvm.meta_schedule`: TVM's tuner, by its names, on `tileloom.tuner`.

>>> import tileloom.compat.tvm as tvm
>>> from tileloom.compat.tvm import meta_schedule as ms, te
>>> A = te.placeholder((64,), name="A"); B = te.compute((64,), lambda i: A[i] + 1.0, name="B")
>>> context = ms.TuneContext(
...     te.create_prim_func([A, B]), target="llvm -num-cores 2", space_generator="post-order-apply")
>>> len(context.generate_design_space())
1
"""

from __future__ import annotations

import sys

from .._names import missing
from . import (
    arg_info,
    builder,
    cost_model,
    database,
    feature_extractor,
    measure_callback,
    mutator,
    postproc,
    profiler,
    runner,
    schedule_rule,
    search_strategy,
    space_generator,
    task_scheduler,
    tir_integration,
    tune_context,
    utils,
)
from .builder import Builder
from .cost_model import CostModel
from .database import Database
from .feature_extractor import FeatureExtractor
from .measure_callback import MeasureCallback
from .mutator import Mutator
from .postproc import Postproc
from .profiler import Profiler
from .runner import Runner
from .schedule_rule import ScheduleRule
from .search_strategy import MeasureCandidate, SearchStrategy
from .space_generator import SpaceGenerator
from .task_scheduler import TaskScheduler
from .tir_integration import tune_tir
from .tune import tune_tasks
from .tune_context import TuneContext
from .utils import derived_object

# TVM spreads these over files.
_FILES = {
    builder: "builder local_builder",
    database: "database json_database memory_database union_database ordered_union_database "
    "schedule_fn_database",
    feature_extractor: "feature_extractor per_store_feature random_feature_extractor",
    measure_callback: "measure_callback add_to_database remove_build_artifact update_cost_model",
    mutator: "mutator mutate_compute_location mutate_parallel mutate_thread_binding "
    "mutate_tile_size mutate_unroll",
    postproc: "postproc disallow_async_strided_mem_copy disallow_dynamic_loop "
    "rewrite_cooperative_fetch rewrite_layout rewrite_parallel_vectorize_unroll "
    "rewrite_reduction_block rewrite_tensorize rewrite_unbound_block verify_gpu_code",
    schedule_rule: "schedule_rule add_rfactor apply_custom_rule auto_bind auto_inline "
    "cross_thread_reduction multi_level_tiling parallel_vectorize_unroll random_compute_location",
    search_strategy: "search_strategy evolutionary_search replay_func replay_trace",
    space_generator: "space_generator post_order_apply schedule_fn space_generator_union",
    task_scheduler: "task_scheduler gradient_based round_robin",
}
for _home, _names in _FILES.items():
    for _name in _names.split():
        sys.modules[f"{_home.__name__}.{_name}"] = _home
sys.modules[f"{cost_model.__name__}.random_model"] = cost_model

__all__ = [
    "Builder", "CostModel", "Database", "FeatureExtractor", "MeasureCallback", "MeasureCandidate",
    "Mutator", "Postproc", "Profiler", "Runner", "ScheduleRule", "SearchStrategy",
    "SpaceGenerator", "TaskScheduler", "TuneContext", "arg_info", "builder", "cost_model",
    "database", "derived_object", "feature_extractor", "measure_callback", "mutator", "postproc",
    "profiler", "runner", "schedule_rule", "search_strategy", "space_generator", "task_scheduler",
    "tir_integration", "tune_context", "tune_tasks", "tune_tir", "utils",
]  # fmt: skip
__getattr__ = missing(__name__)
