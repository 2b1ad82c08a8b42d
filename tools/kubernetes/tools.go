//go:build tools

// Package kubernetestools names the Kubernetes programs that `make tools`
// builds. k8s.io/kubernetes requires its staging modules at v0.0.0, so go.mod
// replaces each with the published version of the same release.
package kubernetestools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
