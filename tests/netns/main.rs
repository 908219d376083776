//! Tests in network namespaces of their own: no cluster, only the kernel.

mod lab;
