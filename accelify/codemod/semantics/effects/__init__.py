"""The effects of running code besides its value: prints, writes, draws, changes; function by function, bottom-up."""
