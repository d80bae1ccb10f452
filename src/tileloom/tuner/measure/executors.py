"""Executors by their addresses: this machine, a Dask scheduler, a Ray head."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Executor, Future
from functools import partial
from importlib.util import find_spec
from typing import Any, ParamSpec, TypeVar

from ...base.errors import UserError
from .local import Limits, LocalExecutor

P = ParamSpec("P")
T = TypeVar("T")

_RETRIES = 1  # of a task whose machine was lost


def executor_of(url: str, limits: Limits | None = None) -> Executor:
    """The executor at an address.

    Args:
        url: "local" for one worker process on this machine, "local:4" for four; the scheduler of a
            Dask cluster, "dask://host:port"; the head of a Ray cluster, "ray://host:port". Workers
            elsewhere need Tileloom, of the same version.
        limits: of each task on this machine. `measure` is told the limits of tasks elsewhere.

    Raises:
        UserError: the address means nothing, or the package that it needs is not installed.

    >>> with executor_of("local:2") as executor:
    ...     executor.workers, executor.submit(max, 1, 2).result()
    (2, 2)
    """
    scheme, _, place = url.partition("://")
    if scheme in _OPENERS and place:
        _need(_PACKAGES[scheme], scheme)
        return _OPENERS[scheme](place)
    name, colon, count = url.partition(":")
    if name == "local" and (count.isdecimal() if colon else not count):
        return LocalExecutor(int(count or 1), limits)
    raise UserError(
        f"{url!r} is the address of no executor",
        hint='addresses are "local", "local:4", "dask://host:port" and "ray://host:port"',
    )


def _need(package: str, extra: str) -> None:
    if find_spec(package) is None:
        raise UserError(
            f"the package {package!r}, which {extra}:// needs, is not installed",
            hint=f"pip install 'tileloom[{extra}]'",
        )


def _dask(place: str) -> Executor:
    import distributed

    client = distributed.Client(f"tcp://{place}", set_as_default=False)
    # Two measurements of one candidate are two: results are not looked up by arguments.
    executor: Executor = client.get_executor(pure=False, retries=_RETRIES)
    return executor


def _ray(place: str) -> Executor:
    import ray

    ray.init(address=f"ray://{place}", ignore_reinit_error=True)
    return RayExecutor(ray)


_OPENERS: dict[str, Callable[[str], Executor]] = {"dask": _dask, "ray": _ray}
_PACKAGES = {"dask": "distributed", "ray": "ray"}


def _pass_on(future: Future[T], done: Future[T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    error = done.exception()
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())


def _called(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    return function(*arguments, **keywords)


class RayExecutor(Executor):
    """Tasks of Ray as futures; one whose machine is lost is tried again on another.

    Args:
        ray: the package, connected to a cluster.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        # Ray calls functions written in Python alone, such as this one, which calls any.
        self._call = ray.remote(max_retries=_RETRIES, num_cpus=1)(_called)
        self._lock = threading.Lock()
        self._open: dict[Future[Any], Any] = {}  # references by their futures
        self._is_shut = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have the cluster call a function on one CPU.

        Raises:
            RuntimeError: after `shutdown`.
        """
        with self._lock:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            reference = self._call.remote(fn, *args, **kwargs)
            # Ray's own future must not be cancelled: the thread that has its result would fail.
            future: Future[T] = Future()
            self._open[future] = reference
        future.add_done_callback(self._forget)
        reference.future().add_done_callback(partial(_pass_on, future))
        return future

    def _forget(self, future: Future[Any]) -> None:
        with self._lock:
            reference = self._open.pop(future, None)
        if reference is not None and future.cancelled():
            self._ray.cancel(reference)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks; wait for those there are, or cancel them."""
        with self._lock:
            self._is_shut = True
            left = list(self._open)
        for future in left if cancel_futures else ():
            future.cancel()
        if wait:
            futures.wait(left)
