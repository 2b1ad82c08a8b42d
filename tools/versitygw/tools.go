//go:build tools

// Package versitygwtools names the S3 server that the tests run against, so
// that go.mod and go.sum pin it: it keeps bucket policies exactly, which is
// what makes credentials that may only write.
package versitygwtools

import (
	_ "github.com/versity/versitygw/cmd/versitygw"
)
