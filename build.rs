//! Makes the service of KMS plugins from `proto/kms`.

fn main() -> std::io::Result<()> {
    tonic_prost_build::configure()
        .build_client(true)
        .build_server(true)
        .compile_protos(&["proto/kms/v1beta1.proto", "proto/kms/v2.proto"], &["proto/kms"])
}
