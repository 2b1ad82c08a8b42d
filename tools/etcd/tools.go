//go:build tools

// Package etcdtools names the etcd programs that `make tools` builds, so that
// go.mod and go.sum pin them. etcd's own go.mod carries replace lines, which
// `go install package@version` refuses; a module that requires them builds.
package etcdtools

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/etcdutl/v3"
	_ "go.etcd.io/etcd/server/v3"
)
