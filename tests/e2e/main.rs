//! Real etcd and kube-apiserver. A missing program fails the test with its name and `make tools`.
