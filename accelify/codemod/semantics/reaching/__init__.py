"""Which bindings reach a read? Over the control-flow graph for `semantics.definitions`, in a world for `conditions`."""
