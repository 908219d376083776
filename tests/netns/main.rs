//! Tests in network namespaces of their own: no cluster, only the kernel.

mod cni;
mod lab;
mod net;
