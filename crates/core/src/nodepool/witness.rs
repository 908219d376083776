//! When a node counts as dead before its kubelet is given up.
