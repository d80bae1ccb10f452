"""What passes ask of a program."""
