"""Which variable a name or an attribute stands for."""

from __future__ import annotations

from accelify.codemod.semantics.reaching.variables import Variable
from tests.codemod.semantics.reaching.sources import Named


def test_relatives_share_the_attributes_of_self() -> None:
    source = Named("""
        class A:
            def f(self):
                self.x = 1
        class B(A):
            def g(self):
                return self.x
    """)
    written, read = (source.names.variable(source.expression(f"self.x#{number}")) for number in (1, 2))
    assert written is not None
    assert written.is_attribute
    assert written == read


def test_a_self_that_is_bound_again_is_any_object() -> None:
    source = Named("class A:\n    def f(self):\n        self = other\n        return self.x\n")
    assert source.names.variable(source.expression("self.x")) == Variable(None, "x", is_attribute=True)


def test_a_builtin_is_no_variable() -> None:
    source = Named("print(len)\n")
    assert source.names.variable(source.expression("len")) is None
