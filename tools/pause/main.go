// Command pause holds a pod's namespaces: it sleeps until told to end, and
// reaps the children it inherits when it is the first process of a pod's PID
// namespace. It answers -v as the one published by Kubernetes does, which is
// what the canary of a rehearsal runs.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// version is stamped into it by tools/provide.
var version = "0.0.0"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "-v" {
		fmt.Printf("pause.go version %s\n", version)
		return
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

func reap() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}
