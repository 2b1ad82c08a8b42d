//! Reads every resource back through a scratch API server, at exactly the
//! snapshot's revision.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::core::discovery::v2::{APIGroupDiscovery, APIGroupDiscoveryList};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::base::codes;
use crate::base::digest::Sha256;
use crate::base::failure::Failure;
use crate::base::secret::Secret;
use crate::k8s::trial::OpenError;
use crate::rehearsal::apiserver::ANSWER_TIMEOUT;
use crate::rehearsal::index::{self, Index, Seen};
use crate::rehearsal::symptom;
use crate::runbook::facts::{LeftOut, ReadFacts, ResourceRead};

/// Objects of one answer: a few MiB, and the API server's own default for controllers.
const PAGE: usize = 500;
/// The API server serves custom resources a moment after it says it is ready.
const DEFINITIONS_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(250);

/// Metadata alone: the server still reads and decrypts every object.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// What reading everything showed.
#[derive(Debug, Default)]
pub struct Reading {
    pub facts: ReadFacts,
    pub left_out: Vec<LeftOut>,
    /// Resources whose answer differs, and why: each a failure of the run.
    pub bad: Vec<String>,
    /// The answers say that values could not be decrypted.
    pub undecryptable: bool,
}

/// Reads every resource of `index` at `revision`.
///
/// # Errors
/// `rehearsal.not-ready` when the API server no longer answers.
pub async fn read_everything(client: &kube::Client, index: &Index, revision: i64) -> Result<Reading, Failure> {
    let mut reading = Reading { facts: ReadFacts { revision, ..ReadFacts::default() }, ..Reading::default() };
    let served = discover(client, index).await?;
    let conversions = conversions(client, revision).await?;
    reading.left_out.extend(aggregated(client, revision).await?);
    for ((group, resource), objects) in &index.resources {
        let webhook = conversions.get(&(group.clone(), resource.clone()));
        let version =
            webhook.and_then(|storage| storage.clone()).or_else(|| served.get(&(group.clone(), resource.clone())).cloned());
        let live = objects.len() as u64;
        let mut read = ResourceRead { group: group.clone(), resource: resource.clone(), snapshot: live, api: None, note: None };
        let Some(version) = version else {
            let why = unserved(index, group, resource);
            read.note = Some(format!("left out: {why}"));
            reading.leave_out(group, resource, live, why);
            reading.facts.resources.push(read);
            continue;
        };
        match list(client, group, &version, resource, revision).await {
            Ok(answer) => {
                read.api = Some(answer.len() as u64);
                let difference = index::compare(objects, &answer);
                reading.facts.encrypted_read += difference.encrypted_read;
                if !difference.is_none() {
                    read.note = Some(difference.describe());
                    reading.bad.push(format!("{}: {}", full_name(group, resource), difference.describe()));
                }
            }
            Err(ListError::Lost(failure)) => return Err(failure),
            Err(ListError::Refused(message)) if webhook.is_some() && OpenError::all_in(&message).is_empty() => {
                let why = "its versions are converted by a webhook of the cluster's own: proven by rung open only";
                read.note = Some(format!("left out: {why}"));
                reading.leave_out(group, resource, live, why);
            }
            Err(ListError::Refused(message)) => {
                reading.undecryptable |= !OpenError::all_in(&message).is_empty();
                let causes = symptom::causes(&message);
                let note = if causes.is_empty() { message } else { format!("{message} ({})", causes.join("; ")) };
                reading.bad.push(format!("{}: {note}", full_name(group, resource)));
                read.note = Some(note);
            }
        }
        reading.facts.resources.push(read);
    }
    Ok(reading)
}

impl Reading {
    fn leave_out(&mut self, group: &str, resource: &str, live: u64, why: &str) {
        self.left_out.push(LeftOut { what: full_name(group, resource), objects: Some(live), why: why.to_owned() });
    }
}

/// `deployments.apps`, `secrets`.
#[must_use]
pub fn full_name(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn unserved(index: &Index, group: &str, resource: &str) -> &'static str {
    let custom = group.contains('.') && crate::k8s::resource::builtin(group, resource).is_none();
    if !custom {
        "this API server has no endpoint for it"
    } else if index.defines(group, resource) {
        "its definition is there, and the API server does not serve it"
    } else {
        "its definition is gone"
    }
}

/// The preferred version of each resource that can be listed, once every
/// resource with a definition in the snapshot is served or time is up.
async fn discover(client: &kube::Client, index: &Index) -> Result<BTreeMap<(String, String), String>, Failure> {
    let deadline = tokio::time::Instant::now() + DEFINITIONS_LIMIT;
    loop {
        let core = within(client.list_core_api_versions_aggregated()).await?;
        let groups = within(client.list_api_groups_aggregated()).await?;
        let served = listable(&core, &groups);
        let waiting = index
            .resources
            .keys()
            .any(|(group, resource)| !served.contains_key(&(group.clone(), resource.clone())) && index.defines(group, resource));
        if !waiting || tokio::time::Instant::now() >= deadline {
            return Ok(served);
        }
        tokio::time::sleep(POLL).await;
    }
}

fn listable(core: &APIGroupDiscoveryList, groups: &APIGroupDiscoveryList) -> BTreeMap<(String, String), String> {
    let name = |group: &APIGroupDiscovery| group.metadata.as_ref().and_then(|meta| meta.name.clone()).unwrap_or_default();
    let mut served = BTreeMap::new();
    for group in core.items.iter().chain(&groups.items) {
        // In descending order of preference: the first that serves a resource is it.
        for version in &group.versions {
            let Some(version_name) = &version.version else { continue };
            // What another server serves is not current here, and not in this etcd.
            if version.freshness.as_deref() == Some("Stale") {
                continue;
            }
            for resource in version.resources.iter().filter(|resource| resource.verbs.iter().any(|verb| verb == "list")) {
                let Some(plural) = &resource.resource else { continue };
                served.entry((name(group), plural.clone())).or_insert_with(|| version_name.clone());
            }
        }
    }
    served
}

/// Custom resources whose versions a webhook converts, with the version that
/// needs no conversion when it is served.
async fn conversions(client: &kube::Client, revision: i64) -> Result<BTreeMap<(String, String), Option<String>>, Failure> {
    #[derive(Deserialize)]
    struct Definition {
        spec: DefinitionSpec,
    }
    #[derive(Deserialize)]
    struct DefinitionSpec {
        group: String,
        names: Names,
        versions: Vec<Version>,
        conversion: Option<Conversion>,
    }
    #[derive(Deserialize)]
    struct Names {
        plural: String,
    }
    #[derive(Deserialize)]
    struct Version {
        name: String,
        served: bool,
        storage: bool,
    }
    #[derive(Deserialize)]
    struct Conversion {
        strategy: String,
    }
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definitions: Vec<Definition> = pages(client, path, revision, "application/json").await.map_err(lost_or_refused)?;
    let converted = definitions
        .into_iter()
        .map(|definition| definition.spec)
        .filter(|spec| spec.conversion.as_ref().is_some_and(|conversion| conversion.strategy == "Webhook"));
    Ok(converted
        .map(|spec| {
            let storage = spec.versions.into_iter().find(|version| version.storage && version.served);
            ((spec.group, spec.names.plural), storage.map(|version| version.name))
        })
        .collect())
}

/// API groups that another server serves.
async fn aggregated(client: &kube::Client, revision: i64) -> Result<Vec<LeftOut>, Failure> {
    #[derive(Deserialize)]
    struct ApiService {
        spec: ApiServiceSpec,
    }
    #[derive(Deserialize)]
    struct ApiServiceSpec {
        group: Option<String>,
        service: Option<serde::de::IgnoredAny>,
    }
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    let services: Vec<ApiService> = pages(client, path, revision, "application/json").await.map_err(lost_or_refused)?;
    let mut groups: Vec<String> =
        services.into_iter().filter(|service| service.spec.service.is_some()).filter_map(|service| service.spec.group).collect();
    groups.sort();
    groups.dedup();
    let why = "another server serves it, which is no part of a rehearsal";
    Ok(groups
        .into_iter()
        .map(|group| LeftOut { what: format!("aggregated group {group}"), objects: None, why: why.into() })
        .collect())
}

/// All objects of a resource.
async fn list(client: &kube::Client, group: &str, version: &str, resource: &str, revision: i64) -> Result<Vec<Seen>, ListError> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
        #[serde(default)]
        data: Option<BTreeMap<String, SecretText>>,
        #[serde(default, rename = "type")]
        kind: String,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        #[serde(default)]
        namespace: String,
        name: String,
        #[serde(default)]
        resource_version: String,
    }
    let path =
        if group.is_empty() { format!("/api/{version}/{resource}") } else { format!("/apis/{group}/{version}/{resource}") };
    // Only of Secrets are the values compared, so only they are transferred.
    let is_secret = group.is_empty() && resource == "secrets";
    let accept = if is_secret { "application/json" } else { METADATA_ONLY };
    let objects: Vec<Object> = pages(client, &path, revision, accept).await?;
    objects
        .into_iter()
        .map(|object| {
            let secret = if is_secret { Some(digest(&object.kind, object.data.unwrap_or_default())?) } else { None };
            let Metadata { namespace, name, resource_version } = object.metadata;
            Ok(Seen { namespace, name, resource_version, secret })
        })
        .collect()
}

/// Base64 of a Secret's value: never printed, wiped on drop.
#[derive(Deserialize)]
#[serde(from = "String")]
struct SecretText(Secret<String>);

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(Secret::new(text))
    }
}

fn digest(kind: &str, data: BTreeMap<String, SecretText>) -> Result<Sha256, ListError> {
    let mut decoded = BTreeMap::new();
    for (key, SecretText(text)) in data {
        let value = data_encoding::BASE64.decode(text.expose().as_bytes());
        let value = value.map_err(|_| ListError::Refused("a Secret's data is not base64".to_owned()))?;
        decoded.insert(key, Secret::new(value));
    }
    Ok(index::secret_digest(kind, &decoded))
}

enum ListError {
    /// The API server answered that it will not, or with nonsense.
    Refused(String),
    /// It no longer answers.
    Lost(Failure),
}

fn lost_or_refused(error: ListError) -> Failure {
    match error {
        ListError::Lost(failure) => failure,
        ListError::Refused(message) => Failure::new(&codes::REHEARSAL_COUNT, "scratch API server", message),
    }
}

/// All pages of a list at exactly `revision`.
async fn pages<T: DeserializeOwned>(client: &kube::Client, path: &str, revision: i64, accept: &str) -> Result<Vec<T>, ListError> {
    #[derive(Deserialize)]
    struct Page<T> {
        metadata: PageMetadata,
        #[serde(default = "Vec::new")]
        items: Vec<T>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PageMetadata {
        resource_version: String,
        #[serde(default)]
        r#continue: String,
    }
    let mut all = Vec::new();
    let mut query = format!("limit={PAGE}&resourceVersion={revision}&resourceVersionMatch=Exact");
    loop {
        let request = http::Request::get(format!("{path}?{query}")).header(http::header::ACCEPT, accept).body(Vec::new());
        let request = request.map_err(|e| ListError::Refused(e.to_string()))?;
        let page: Page<T> = match tokio::time::timeout(ANSWER_TIMEOUT, client.request(request)).await {
            Ok(Ok(page)) => page,
            Ok(Err(kube::Error::Api(status))) => return Err(ListError::Refused(status.message.clone())),
            Ok(Err(kube::Error::SerdeError(error))) => return Err(ListError::Refused(format!("{path}: {error}"))),
            Ok(Err(error)) => return Err(ListError::Lost(lost(&crate::base::failure::chain(&error)))),
            Err(_) => return Err(ListError::Lost(lost("no answer in time"))),
        };
        if page.metadata.resource_version != revision.to_string() {
            return Err(ListError::Refused(format!("{path}: answered at revision {}", page.metadata.resource_version)));
        }
        all.extend(page.items);
        if page.metadata.r#continue.is_empty() {
            return Ok(all);
        }
        query = format!("limit={PAGE}&continue={}", encode(&page.metadata.r#continue));
    }
}

/// A continue token in a query: base64url, but nothing promises that.
fn encode(token: &str) -> String {
    token
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

async fn within<T>(answer: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
    match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
        Ok(answer) => answer.map_err(|error| lost(&crate::base::failure::chain(&error))),
        Err(_) => Err(lost("no answer in time")),
    }
}

fn lost(cause: &str) -> Failure {
    Failure::new(&codes::REHEARSAL_NOT_READY, "scratch API server", cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, versions: &[(&str, &str, &[&str])]) -> APIGroupDiscovery {
        let versions: Vec<_> = versions
            .iter()
            .map(|(version, freshness, resources)| {
                let resources: Vec<_> =
                    resources.iter().map(|plural| serde_json::json!({"resource": plural, "verbs": ["get", "list"]})).collect();
                serde_json::json!({"version": version, "freshness": freshness, "resources": resources})
            })
            .collect();
        serde_json::from_value(serde_json::json!({"metadata": {"name": name}, "versions": versions})).unwrap()
    }

    #[test]
    fn the_preferred_version_that_serves_a_resource_is_taken() {
        let core = APIGroupDiscoveryList { items: vec![group("", &[("v1", "Current", &["pods"])])], ..Default::default() };
        let items = vec![
            group("apps", &[("v1", "Current", &["deployments"]), ("v1beta1", "Current", &["deployments", "old"])]),
            group("metrics.k8s.io", &[("v1", "Stale", &["nodes"])]),
        ];
        let served = listable(&core, &APIGroupDiscoveryList { items, ..Default::default() });
        let version = |group: &str, resource: &str| served.get(&(group.to_owned(), resource.to_owned())).map(String::as_str);
        assert_eq!(version("", "pods"), Some("v1"));
        assert_eq!(version("apps", "deployments"), Some("v1"));
        assert_eq!(version("apps", "old"), Some("v1beta1"));
        assert_eq!(version("metrics.k8s.io", "nodes"), None, "what another server serves is not in this etcd");
    }

    #[test]
    fn tokens_are_safe_in_a_query() {
        assert_eq!(encode("aB-_9=&%"), "aB-_9%3D%26%25");
    }

    #[test]
    fn a_value_in_an_answer_does_not_print() {
        let failed = digest("Opaque", BTreeMap::from([("k".to_owned(), SecretText::from("not base64!".to_owned()))]));
        assert!(matches!(failed, Err(ListError::Refused(text)) if !text.contains("not base64!")));
    }
}
