"""For tests, of this project and of those who build on it: a provider on loopback that answers, and fails, as told."""
