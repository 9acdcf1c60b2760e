"""The runtime that a migrated script imports."""
