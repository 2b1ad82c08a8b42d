//! What the demo writes into its cluster, through the API as any client would.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Api, ListParams, ObjectMeta, PostParams};

use crate::base::codes;
use crate::base::entropy::Entropy;
use crate::base::failure::{Failure, chain};

/// The demo's namespaces; the first half of them is rewritten after a rotation.
pub const NAMESPACES: [&str; 4] = ["shop", "bank", "blog", "mail"];
/// Secrets and ConfigMaps in each namespace.
const OBJECTS: usize = 5;

/// Every Secret written, by namespace and name, with its data.
pub type Written = BTreeMap<(String, String), BTreeMap<String, Vec<u8>>>;

/// Writes namespaces, ConfigMaps and Secrets with random values.
///
/// # Errors
/// `demo.unexpected` when the API server refuses one.
pub async fn write(client: &kube::Client, entropy: &dyn Entropy) -> Result<Written, Failure> {
    let mut written = Written::new();
    let post = PostParams::default();
    for namespace in NAMESPACES {
        let object = Namespace { metadata: named(namespace), ..Namespace::default() };
        Api::all(client.clone()).create(&post, &object).await.map_err(|e| refused(namespace, &e))?;
        for i in 0..OBJECTS {
            let name = format!("settings-{i}");
            let data = BTreeMap::from([("mode".to_owned(), "production".to_owned())]);
            let object = ConfigMap { metadata: named(&name), data: Some(data), ..ConfigMap::default() };
            let api = Api::namespaced(client.clone(), namespace);
            api.create(&post, &object).await.map_err(|e| refused(&name, &e))?;
            let (name, data) = write_secret(client, namespace, i, entropy).await?;
            written.insert((namespace.to_owned(), name), data);
        }
    }
    Ok(written)
}

async fn write_secret(
    client: &kube::Client,
    namespace: &str,
    i: usize,
    entropy: &dyn Entropy,
) -> Result<(String, BTreeMap<String, Vec<u8>>), Failure> {
    let name = format!("credential-{i}");
    let data = BTreeMap::from([
        ("username".to_owned(), format!("{namespace}-{i}").into_bytes()),
        ("password".to_owned(), format!("demo-{}", entropy.hex(32)).into_bytes()),
    ]);
    let stored = data.iter().map(|(key, value)| (key.clone(), ByteString(value.clone()))).collect();
    let object = Secret { metadata: named(&name), data: Some(stored), ..Secret::default() };
    let api = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &object).await.map_err(|e| refused(&name, &e))?;
    Ok((name, data))
}

/// Rewrites every Secret of the first half of the namespaces as it is: the API
/// server then stores it under the first key of its configuration.
///
/// # Errors
/// `demo.unexpected` when the API server refuses one.
pub async fn rewrite_half(client: &kube::Client) -> Result<usize, Failure> {
    let mut rewritten = 0;
    for namespace in &NAMESPACES[..NAMESPACES.len() / 2] {
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let secrets = api.list(&ListParams::default()).await.map_err(|e| refused(namespace, &e))?;
        for secret in secrets {
            let name = secret.metadata.name.clone().unwrap_or_default();
            api.replace(&name, &PostParams::default(), &secret).await.map_err(|e| refused(&name, &e))?;
            rewritten += 1;
        }
    }
    Ok(rewritten)
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn refused(object: &str, error: &kube::Error) -> Failure {
    Failure::new(&codes::DEMO_UNEXPECTED, object, chain(error))
}
