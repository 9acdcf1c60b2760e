"""What running code does besides giving a value: prints, writes, draws, changes; function by function, bottom-up."""
