"""What methods do of which only the name is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from accelify.codemod.libraries import methods


@pytest.mark.parametrize(
    ("is_so", "yes", "no"),
    [
        (methods.is_module_tensor, "weight bias running_mean", "training children forward"),
        (methods.takes_out, "pop popleft popitem remove clear discard", "append update get sort setdefault"),
        (
            methods.puts_in,
            "append extend insert add update setdefault appendleft put add_module add_param_group",
            "pop get copy_ add_ step load_state_dict size append_all",
        ),
        (
            methods.returns_itself,
            "to cuda cpu float train eval requires_grad_ detach clone view mean sum items values add_ apply",
            "item tolist numpy step shape parameters generate",
        ),
        (methods.takes_the_next, "next __next__", "iter pop get"),
        (methods.gives_parameters, "parameters named_parameters", "buffers state_dict"),
        (methods.gives_tensor, "get_parameter get_buffer", "parameters state_dict get_submodule weight"),
        (methods.gives_part, "get_submodule", "module children get_buffer"),
        (methods.gives_view, "view detach", "data clone mul_"),
        (methods.is_optimizers_part, "param_groups state", "step zero_grad"),
        (methods.switches_mode, "train eval", "training to"),
        (methods.ends_graph, "detach item numpy tolist size data shape", "cpu clone sum backward append"),
        (methods.keeps_values, "to cpu item view clone detach float squeeze", "sum mean size add exp"),
        (methods.may_share_memory, "view detach to float contiguous", "clone item tolist sum"),
        (methods.is_view, "data T", "grad shape view"),
        (methods.moves, "to cuda cpu", "float eval"),
        (methods.prepares_a_move, "pin_memory", "numpy cpu to share_memory clone"),
        (methods.is_size, "size dim numel nelement", "shape sum item"),
        (methods.shows, "info write add_scalar plot set_postfix savefig", "append sum item"),
        (methods.is_used_of_scaler, "scale unscale_ step update", "state_dict load_state_dict get_scale"),
        (methods.looks_for_a_file, "exists isfile isdir is_dir is_file", "mkdir listdir join"),
    ],
)
def test_what_a_method_may_do(is_so: Callable[[str], bool], yes: str, no: str) -> None:
    assert [name for name in yes.split() if not is_so(name)] == []
    assert [name for name in no.split() if is_so(name)] == []


def test_a_known_kind_decides_what_a_method_returns() -> None:
    assert methods.returns_itself("to", "module")
    assert not methods.returns_itself("sigmoid", "module")
    assert methods.returns_itself("sigmoid")
    assert not methods.returns_itself("scale", "scaler")
    assert not methods.returns_itself("unscale_", "scaler")


def test_what_containers_pass_on() -> None:
    passed = {name: methods.passes(name) for name in ("get", "pop", "values", "items", "copy", "popleft", "append")}
    assert passed["get"] == passed["pop"] == "element"
    assert (passed["values"], passed["items"], passed["copy"], passed["append"]) == ("values", "items", "same", None)
