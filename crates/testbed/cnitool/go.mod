// The CNI project's own tool, built from its published module.
module floe.dev/testbed/cnitool

go 1.24.0

tool github.com/containernetworking/cni/cnitool

require github.com/containernetworking/cni v1.3.0 // indirect
