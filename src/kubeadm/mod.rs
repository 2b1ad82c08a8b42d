//! A kubeadm node in a sandbox: its programs, images, configuration and phases.
//!
//! Owns: finding what a node needs or naming what is missing, images from local
//! tars or local programs, containerd, the kubelet, kubeadm's phases, static
//! pods and their logs.
//! Must never: ask a registry, change the host, or know what a snapshot is.
