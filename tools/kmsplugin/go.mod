module holdfast.invalid/tools/kmsplugin

go 1.25.1

require k8s.io/kms v0.34.4

require k8s.io/cloud-provider-openstack v1.34.1

require (
	github.com/go-logr/logr v1.4.3 // indirect
	golang.org/x/net v0.45.0 // indirect
	golang.org/x/sys v0.36.0 // indirect
	golang.org/x/text v0.29.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20251007200510-49b9836ed3ff // indirect
	google.golang.org/grpc v1.76.0 // indirect
	google.golang.org/protobuf v1.36.10 // indirect
	k8s.io/klog/v2 v2.130.1 // indirect
)
