"""What is known of the loops and blocks of a scheduled program.

`tree` says where they stand, `scope` what depends on what, `affine` whether loops visit a block's
instances once, `blocks` what kind a block is, `regions` what it touches, `cover` whether everything
it reads has been written. Results are kept with the statements they are about, which never change.
"""
