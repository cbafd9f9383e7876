"""The permitted access of a child process: nothing but its launch profile.

`launcher.py` applies the rules to itself and becomes the command; `landlock.py` and `seccomp.py` are the kernel's
enforcement. They import nothing but the standard library, and little of it: each start of a child waits for them.
`plan.py` makes the rules of a profile, `machine.py` reports which of them this machine can keep.
"""
