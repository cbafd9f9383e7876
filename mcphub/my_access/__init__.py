"""*My access*, at `/me/`: a person's authorized apps, keys and activity. No rights of an operator are needed, nor
given here.
"""
