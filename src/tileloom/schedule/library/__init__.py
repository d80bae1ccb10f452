"""What schedules are made of beyond single primitives: intrinsics and common sequences of steps."""
