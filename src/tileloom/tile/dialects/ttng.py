"""Operations of Triton's NVIDIA dialect: products of warp groups, barriers, tensor copies."""

from __future__ import annotations

from ..ir.definitions import ANY_RULE, BOOL_RULE, I32_RULE, Effect, define
from .tt import ACCESS_CLAUSES, CACHE, EVICT, PRECISION, verify_dot

define(
    "ttng.warp_group_dot",
    "a b c useC?",
    "d",
    attributes={
        "inputPrecision": PRECISION,
        "maxNumImpreciseAcc": I32_RULE,
        "isAsync": BOOL_RULE,
    },
    effects=(Effect.READ_SHARED,),
    format="$a `,` $b `,` $c (`,` $useC^)? attr-dict `:` type($a) `*` type($b) `->` type($d)",
    verify=verify_dot,
)
define(
    "ttng.warp_group_dot_wait",
    "inputs*",
    "outputs*",
    attributes={"pendings": I32_RULE},
    effects=(Effect.OTHER,),
    format="$inputs attr-dict `:` type($inputs)",
    infer=lambda types, _attributes: types,
)
for _name, _operands, _format in (
    ("init_barrier", "alloc", "$alloc `,` $count attr-dict `:` old($alloc, !ttg.memdesc)"),
    ("inval_barrier", "alloc", "$alloc attr-dict `:` old($alloc, !ttg.memdesc)"),
    (
        "barrier_expect",
        "alloc pred",
        "$alloc `,` $size attr-dict `,` $pred `:` old($alloc, !ttg.memdesc)",
    ),
    ("wait_barrier", "alloc phase", "$alloc `,` $phase attr-dict `:` old($alloc, !ttg.memdesc)"),
):
    define(
        f"ttng.{_name}",
        _operands,
        attributes={"count": I32_RULE, "size": I32_RULE},
        effects=(Effect.READ_SHARED, Effect.WRITE_SHARED, Effect.OTHER),
        format=_format,
    )
define(
    "ttng.async_tma_copy_global_to_local",
    "desc coord* barrier result pred",
    attributes={"cache": CACHE, "evict": EVICT},
    effects=(Effect.READ, Effect.WRITE_SHARED),
    format=f"$desc `[` $coord `]` $result `,` $barrier `,` $pred {ACCESS_CLAUSES} attr-dict `:` "
    "old($desc, !tt.ptr) `,` old($barrier, !ttg.memdesc) `->` old($result, !ttg.memdesc)",
)
define(
    "ttng.async_tma_copy_local_to_global",
    "desc coord* src",
    effects=(Effect.WRITE, Effect.READ_SHARED),
    format="$desc `[` $coord `]` $src attr-dict `:` old($desc, !tt.ptr) `,` "
    "old($src, !ttg.memdesc)",
)
define(
    "ttng.async_tma_store_wait",
    attributes={"pendings": ANY_RULE},
    effects=(Effect.OTHER,),
    format="attr-dict",
)
define(
    "ttng.fence_async_shared",
    attributes={"bCluster": BOOL_RULE},
    effects=(Effect.OTHER,),
    format="attr-dict",
)
define(
    "ttng.cluster_arrive",
    attributes={"relaxed": BOOL_RULE},
    effects=(Effect.OTHER,),
    format="attr-dict",
)
define("ttng.cluster_wait", effects=(Effect.OTHER,), format="attr-dict")
