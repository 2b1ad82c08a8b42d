//! The file by which kubectl finds a scratch API server and is let in.

use std::net::SocketAddr;

use data_encoding::BASE64;

use crate::base::secret::Secret;
use crate::rehearsal::apiserver::ApiPki;

/// With all rights over the server at `address`; `name` is what a prompt shows.
pub(super) fn of(name: &str, address: SocketAddr, pki: &ApiPki) -> Secret<String> {
    let base64 = |text: &str| BASE64.encode(text.as_bytes());
    let authority = base64(&pki.authority.certificate());
    let (certificate, key) = (base64(&pki.admin.certificate), base64(pki.admin.key.expose()));
    Secret::new(format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: {name}\n\
         clusters:\n- name: {name}\n  cluster:\n    server: https://{address}\n    certificate-authority-data: {authority}\n\
         users:\n- name: {name}\n  user:\n    client-certificate-data: {certificate}\n    client-key-data: {key}\n\
         contexts:\n- name: {name}\n  context:\n    cluster: {name}\n    user: {name}\n"
    ))
}
