// Command kmsplugin is a KMS v2 plugin that encrypts with the code of
// barbican-kms-plugin (cloud-provider-openstack), but takes its keys from a
// directory, one file per key id, in place of Barbican. The tests encrypt a
// source cluster with it, so that what holdfast decrypts was never made by
// holdfast. Like the original it dies of a wrong key.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/cloud-provider-openstack/pkg/kms/encryption/aescbc"
	"k8s.io/kms/pkg/service"
)

// version is stamped into it by tools/provide.
var version = "0.0.0"

type plugin struct{ keys, current string }

func (p plugin) key(id string) ([]byte, error) {
	if id == "" || filepath.Base(id) != id {
		return nil, fmt.Errorf("bad key id %q", id)
	}
	return os.ReadFile(filepath.Join(p.keys, id))
}

func (p plugin) Encrypt(_ context.Context, _ string, plain []byte) (*service.EncryptResponse, error) {
	key, err := p.key(p.current)
	if err != nil {
		return nil, err
	}
	sealed, err := aescbc.Encrypt(plain, key)
	if err != nil {
		return nil, err
	}
	return &service.EncryptResponse{Ciphertext: sealed, KeyID: p.current}, nil
}

func (p plugin) Decrypt(_ context.Context, _ string, request *service.DecryptRequest) ([]byte, error) {
	key, err := p.key(request.KeyID)
	if err != nil {
		return nil, err
	}
	// The original decrypts in place.
	return aescbc.Decrypt(bytes.Clone(request.Ciphertext), key)
}

func (p plugin) Status(context.Context) (*service.StatusResponse, error) {
	return &service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: p.current}, nil
}

func main() {
	keys := flag.String("keys", "", "directory with one file per key id, of 16, 24 or 32 bytes")
	current := flag.String("current", "", "key id to encrypt with")
	socket := flag.String("socket", "", "Unix socket to listen on")
	shown := flag.Bool("version", false, "print the version")
	flag.Parse()
	if *shown {
		fmt.Println("kmsplugin", version)
		return
	}
	if err := os.Remove(*socket); err != nil && !os.IsNotExist(err) {
		stop(err)
	}
	server := service.NewGRPCService(*socket, 5*time.Second, plugin{*keys, *current})
	go func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
		<-signals
		server.Shutdown()
	}()
	if err := server.ListenAndServe(); err != nil {
		stop(err)
	}
}

func stop(err error) {
	fmt.Fprintln(os.Stderr, "kmsplugin:", err)
	os.Exit(1)
}
