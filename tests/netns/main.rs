//! Tests in network namespaces of their own: no cluster, only the kernel.

mod capabilities;
mod cni;
mod lab;
mod net;
