//! Whether a node and its pods are what a pool asks for.
