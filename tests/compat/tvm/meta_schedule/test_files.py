"""The files of TVM in which scripts look for names."""

from __future__ import annotations

from importlib import import_module

import pytest

PACKAGE = "tileloom.compat.tvm.meta_schedule"
PLACES = """
arg_info: ArgInfo TensorInfo
builder.local_builder: LocalBuilder
cost_model.random_model: RandomModel
cost_model.xgb_model: PackSum XGBConfig XGBModel
database.json_database: JSONDatabase
database.schedule_fn_database: ScheduleFnDatabase
feature_extractor.per_store_feature: PerStoreFeature
measure_callback.update_cost_model: UpdateCostModel
mutator.mutate_tile_size: MutateTileSize
postproc.verify_gpu_code: VerifyGPUCode
runner.config: EvaluatorConfig RPCConfig
runner.local_runner: LocalRunner default_alloc_argument default_run_evaluator
runner.rpc_runner: RPCRunner
schedule_rule.multi_level_tiling: MultiLevelTiling ReuseType
search_strategy.replay_trace: ReplayTrace
space_generator.space_generator_union: SpaceGeneratorUnion
task_scheduler.gradient_based: GradientBased
testing.dummy_object: DummyBuilder DummyMutator DummyRunner
testing.local_rpc: LocalRPC
tune_context: TuneContext
utils: cpu_count derived_object
"""


@pytest.mark.parametrize("line", PLACES.split("\n")[1:-1])
def test_names_are_in_the_files_of_tvm(line: str) -> None:
    file, names = line.split(": ")
    module = import_module(f"{PACKAGE}.{file}")
    for name in names.split():
        assert hasattr(module, name)


def test_what_is_not_there_says_so() -> None:
    for file in ("builder", "cost_model", "database", "runner", "testing", "utils"):
        module = import_module(f"{PACKAGE}.{file}")
        with pytest.raises(
            AttributeError, match=f"tvm.meta_schedule.{file}.nonsense of TVM is not"
        ):
            module.nonsense  # noqa: B018
