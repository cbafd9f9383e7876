"""What a child process of the hub may do: nothing but what its launch profile says.

`launcher.py` applies the rules to itself and becomes the command; `landlock.py` and `seccomp.py` are what the kernel
enforces. They import nothing but the standard library, and little of it: each start of a child waits for them.
`plan.py` makes the rules of a profile, `machine.py` says what of them this machine can keep.
"""
