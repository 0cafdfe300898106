"""How numba compiles an entry kernel: what only other kernels call is prepared for that, and made machine code once.

By itself numba optimises every function that a kernel calls, and makes machine code of it, as if Python would call it;
all that is done again within the kernel that it is linked into. The functions that an entry kernel calls, of ours and
of numba, are here only simplified and handed on. Floating-point operations keep their order, so results keep their
bits. This relies on numba's inner interfaces: tests/unit/core/test_kernel_compiler.py fails where they change.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, cast

from numba.core import errors, event, types
from numba.core.bytecode import FunctionIdentity
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import overload
from numba.np import arrayobj


class LinkedLibrary(JITCodeLibrary):
    """The code of a function that is linked into others and never called by address."""

    def _optimize_functions(self, ll_module: Any) -> None:
        # What makes the code shorter: stores, branches, reference counts. The entry kernel's own passes do the rest.
        ll_module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager(opt=1, loop_vectorize=False, slp_vectorize=False)
        for function in ll_module.functions:
            passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        options = {"loop_vectorize": False, "slp_vectorize": False, "opt": 0, "cost": "cheap"}
        passes, builder = self._codegen._module_pass_manager(**options)
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        if getattr(self, "_compiled_object", None) is not None:  # an entry kernel from the cache: Python calls it too
            super()._finalize_final_module()
        else:
            self._finalize_dynamic_globals()
            self._verify_declare_only_symbols()
            self._finalized = True


class EntryCompiler(Compiler):
    """numba's compiler of functions without Python objects, for a function that Python calls."""

    def compile_extra(self, func: Any) -> Any:
        """The compiled function, as numba's compilers return it."""
        context = self.state.targetctx
        if self.state["library"] is None:
            name = FunctionIdentity.from_function(func).func_qualname
            library = JITCodeLibrary(context.codegen(), name)
            library.enable_object_caching()
            self.state["library"] = library
        # numba holds its lock around every compilation, so no other thread meets what is replaced here.
        with _linking(context.codegen()), _without_needless(context), _without_collections():
            return super().compile_extra(func)


@contextmanager
def _linking(codegen: Any) -> Iterator[None]:
    """Within it, the functions compiled on the way are linked libraries."""
    environments: list[tuple[str, Any]] = []
    replaced = {"_library_class": LinkedLibrary, "set_env": lambda name, env: environments.append((name, env))}
    with _replaced(codegen, replaced):
        yield
    for name, environment in environments:
        if codegen._engine.get_global_value_address(name):
            codegen.set_env(name, environment)


@contextmanager
def _without_needless(context: Any) -> Iterator[None]:
    """Within it, numba leaves out what takes time and is not used.

    These are functions for callers in C; clocks of each compilation within others; colours of messages of the overloads
    that it tries in vain; and, for every assignment to a slice, code that puts both shapes into an error's message.
    """
    with (
        _replaced(context, {"create_cfunc_wrapper": lambda *_: None}),
        _replaced(event, {"install_timer": lambda *_: nullcontext()}),
        _replaced(errors.termcolor(), {"_markup": lambda message, *_, **__: message}),
        _replaced(arrayobj, {"raise_with_shape_context": refuse_shapes}),
    ):
        yield


@contextmanager
def _without_collections() -> Iterator[None]:
    """Within it, Python looks for no cycles of garbage: a sixth of the time, over millions of objects still in use."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def refuse_shapes(source: Any, target: Any) -> None:
    """Raises ValueError: a slice is assigned an array of another shape."""


@overload(refuse_shapes)
def _refuse_shapes(source: Any, target: Any) -> Any:  # noqa: ARG001  (numba compares the names)
    def refuse(source: Any, target: Any) -> None:  # noqa: ARG001
        raise ValueError("cannot assign a slice from an array of another shape")

    return refuse


@contextmanager
def _replaced(holder: Any, attributes: dict[str, Any]) -> Iterator[None]:
    """Within it, the holder itself has these attributes."""
    before = {name: vars(holder)[name] for name in attributes if name in vars(holder)}
    for name, value in attributes.items():
        setattr(holder, name, value)
    try:
        yield
    finally:
        for name in attributes:
            if name in before:
                setattr(holder, name, before[name])
            else:
                delattr(holder, name)


def without_literals(dispatcher: Any) -> Any:
    """The dispatcher, compiled for a number's type: numba also compiles for constants, of which it keeps nothing."""
    template, plain = dispatcher.get_call_template, cast(Any, types.unliteral)
    dispatcher.get_call_template = lambda args, kws: template(
        tuple(plain(arg) for arg in args), {name: plain(arg) for name, arg in kws.items()}
    )
    return dispatcher
