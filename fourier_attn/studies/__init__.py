"""Answers questions about trained networks and layers. Each study is one command."""
