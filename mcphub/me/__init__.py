"""*My access*, at `/me/`: what a person let in, holds and did. No rights of an operator are needed, nor given here."""
