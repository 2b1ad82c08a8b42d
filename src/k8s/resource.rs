//! Where objects lie: from an etcd key to a resource, a namespace and a name.
//!
//! Built-ins carry no API group in their path, so a table says which they are;
//! it is that of Kubernetes 1.34. Custom resources carry their group. Whatever
//! else lies under the prefix is taken for a built-in of another version.

use std::collections::HashMap;

/// Where a key lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Located<'k> {
    Resource(Place<'k>),
    /// Under the prefix, kept by the API server for itself, without a REST endpoint.
    Internal(Internal<'k>),
    /// Not under the prefix: `compact_rev_key`, or another user of this etcd.
    Outside,
}

/// Where an object of a resource lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'k> {
    /// Empty for core. None when neither the table nor the path tells it: then the object's apiVersion does.
    pub group: Option<&'k str>,
    /// The API plural: `nodes`, not the stored `minions`.
    pub resource: &'k str,
    /// Of built-ins.
    pub kind: Option<&'static str>,
    /// Empty when cluster-wide.
    pub namespace: &'k str,
    pub name: &'k str,
}

/// What the API server keeps for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Internal<'k> {
    /// The first segment below the prefix: `masterleases`, `ranges`, …
    pub segment: &'k str,
    /// Where it is known.
    pub kind: Option<&'static str>,
    /// The resource through whose providers it is stored; none when unknown.
    pub stored_as: Option<&'static str>,
}

/// A resource that an API server of Kubernetes 1.34 has built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// The path below the prefix, of one or two segments.
    pub path: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    pub kind: &'static str,
    pub is_namespaced: bool,
}

impl<'k> Located<'k> {
    /// Group and resource through whose providers the API server stores this
    /// key. None when it is not the API server's, or the group is unknown.
    #[must_use]
    pub fn stored_as(&self) -> Option<(&'k str, &'k str)> {
        match *self {
            Self::Resource(place) => place.group.map(|group| (group, place.resource)),
            Self::Internal(internal) => internal.stored_as.map(|resource| ("", resource)),
            Self::Outside => None,
        }
    }
}

/// Finds where a key lies under a prefix such as `/registry`.
#[must_use]
pub fn locate<'k>(prefix: &str, etcd_key: &'k [u8]) -> Located<'k> {
    let below = etcd_key.strip_prefix(prefix.as_bytes()).and_then(|rest| rest.strip_prefix(b"/"));
    match below.map(std::str::from_utf8) {
        Some(Ok(path)) => locate_below(path),
        // The API server's names are UTF-8, so other bytes are not its own.
        Some(Err(_)) | None => Located::Outside,
    }
}

/// The path before a known resource segment that most keys share; none when no key has one.
#[must_use]
pub fn learn_prefix<'k>(keys: impl IntoIterator<Item = &'k [u8]>) -> Option<String> {
    let mut votes = PrefixVotes::default();
    for key in keys {
        votes.count(key);
    }
    votes.winner()
}

/// [`learn_prefix`] for keys that pass one by one.
#[derive(Debug, Default)]
pub struct PrefixVotes {
    votes: HashMap<String, u64>,
}

impl PrefixVotes {
    /// A snapshot has one prefix, and few paths look like another. More are hostile and not remembered.
    const MAX_CANDIDATES: usize = 1024;

    /// Counts what this key says. Each place where the rest of the path reads
    /// as an object of a built-in is a vote: `/registry/configmaps/nodes/x` has
    /// two, and the keys of other namespaces decide.
    pub fn count(&mut self, etcd_key: &[u8]) {
        let Ok(key) = std::str::from_utf8(etcd_key) else { return };
        for (at, _) in key.match_indices('/') {
            let (prefix, below) = (&key[..at], &key[at + 1..]);
            if !reads_as_builtin(below) {
                continue;
            }
            if let Some(count) = self.votes.get_mut(prefix) {
                *count += 1;
            } else if self.votes.len() < Self::MAX_CANDIDATES {
                self.votes.insert(prefix.to_owned(), 1);
            }
        }
    }

    /// The prefix with most votes; of equal ones the shortest, then the first in order.
    #[must_use]
    pub fn winner(&self) -> Option<String> {
        let best = self.votes.iter().max_by(|(a, m), (b, n)| m.cmp(n).then(b.len().cmp(&a.len())).then(b.cmp(a)));
        best.map(|(prefix, _)| prefix.clone())
    }
}

/// The built-in whose path begins a path below the prefix, and the rest of that path.
#[must_use]
pub fn builtin_of_path(path: &str) -> Option<(&'static Builtin, &str)> {
    let (first, rest) = path.split_once('/')?;
    if let Ok(found) = BUILTINS.binary_search_by(|builtin| builtin.path.cmp(first)) {
        return BUILTINS.get(found).map(|builtin| (builtin, rest));
    }
    let (second, rest) = rest.split_once('/')?;
    let two = BUILTINS.iter().find(|builtin| builtin.path.split_once('/') == Some((first, second)))?;
    Some((two, rest))
}

/// The built-in of an API group and plural.
#[must_use]
pub fn builtin(group: &str, resource: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|builtin| builtin.group == group && builtin.resource == resource)
}

fn reads_as_builtin(path: &str) -> bool {
    builtin_of_path(path).is_some_and(|(builtin, rest)| {
        let mut segments = rest.split('/');
        let wanted = if builtin.is_namespaced { 2 } else { 1 };
        segments.by_ref().take(wanted).filter(|segment| !segment.is_empty()).count() == wanted && segments.next().is_none()
    })
}

fn locate_below(path: &str) -> Located<'_> {
    let segment = path.split('/').next().unwrap_or_default();
    if let Some(internal) = INTERNALS.iter().find(|internal| internal.segment == segment) {
        return Located::Internal(*internal);
    }
    if let Some((builtin, rest)) = builtin_of_path(path) {
        let (namespace, name) = namespace_and_name(rest);
        return Located::Resource(Place {
            group: Some(builtin.group),
            resource: builtin.resource,
            kind: Some(builtin.kind),
            namespace,
            name,
        });
    }
    locate_unlisted(path).map_or(Located::Internal(Internal { segment, kind: None, stored_as: None }), Located::Resource)
}

/// A custom resource when the first segment has a dot, else a built-in of another version.
fn locate_unlisted(path: &str) -> Option<Place<'_>> {
    let (first, rest) = path.split_once('/')?;
    let (group, resource, rest) = if first.contains('.') {
        let (resource, rest) = rest.split_once('/')?;
        (Some(first), resource, rest)
    } else {
        (None, first, rest)
    };
    if resource.is_empty() || rest.is_empty() {
        return None;
    }
    let (namespace, name) = namespace_and_name(rest);
    Some(Place { group, resource, kind: None, namespace, name })
}

fn namespace_and_name(rest: &str) -> (&str, &str) {
    rest.split_once('/').unwrap_or(("", rest))
}

/// What lies under the prefix without being a resource.
const INTERNALS: [Internal<'static>; 3] = [
    Internal { segment: "masterleases", kind: Some("Endpoints"), stored_as: Some("apiServerIPInfo") },
    Internal { segment: "peerserverleases", kind: Some("Endpoints"), stored_as: Some("apiServerPeerIPInfo") },
    Internal { segment: "ranges", kind: Some("RangeAllocation"), stored_as: Some("services") },
];

const fn namespaced(path: &'static str, group: &'static str, resource: &'static str, kind: &'static str) -> Builtin {
    Builtin { path, group, resource, kind, is_namespaced: true }
}

const fn cluster_wide(path: &'static str, group: &'static str, resource: &'static str, kind: &'static str) -> Builtin {
    Builtin { path, group, resource, kind, is_namespaced: false }
}

/// Every stored resource of Kubernetes 1.34, alpha and beta ones included, sorted by path.
#[rustfmt::skip]
pub const BUILTINS: &[Builtin] = &[
    cluster_wide("apiextensions.k8s.io/customresourcedefinitions", "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition"),
    cluster_wide("apiregistration.k8s.io/apiservices", "apiregistration.k8s.io", "apiservices", "APIService"),
    cluster_wide("certificatesigningrequests", "certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest"),
    cluster_wide("clusterrolebindings", "rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding"),
    cluster_wide("clusterroles", "rbac.authorization.k8s.io", "clusterroles", "ClusterRole"),
    cluster_wide("clustertrustbundles", "certificates.k8s.io", "clustertrustbundles", "ClusterTrustBundle"),
    namespaced("configmaps", "", "configmaps", "ConfigMap"),
    namespaced("controllerrevisions", "apps", "controllerrevisions", "ControllerRevision"),
    namespaced("controllers", "", "replicationcontrollers", "ReplicationController"),
    namespaced("cronjobs", "batch", "cronjobs", "CronJob"),
    cluster_wide("csidrivers", "storage.k8s.io", "csidrivers", "CSIDriver"),
    cluster_wide("csinodes", "storage.k8s.io", "csinodes", "CSINode"),
    namespaced("csistoragecapacities", "storage.k8s.io", "csistoragecapacities", "CSIStorageCapacity"),
    namespaced("daemonsets", "apps", "daemonsets", "DaemonSet"),
    namespaced("deployments", "apps", "deployments", "Deployment"),
    cluster_wide("deviceclasses", "resource.k8s.io", "deviceclasses", "DeviceClass"),
    cluster_wide("devicetaintrules", "resource.k8s.io", "devicetaintrules", "DeviceTaintRule"),
    namespaced("endpointslices", "discovery.k8s.io", "endpointslices", "EndpointSlice"),
    namespaced("events", "", "events", "Event"),
    cluster_wide("flowschemas", "flowcontrol.apiserver.k8s.io", "flowschemas", "FlowSchema"),
    namespaced("horizontalpodautoscalers", "autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    namespaced("ingress", "networking.k8s.io", "ingresses", "Ingress"),
    cluster_wide("ingressclasses", "networking.k8s.io", "ingressclasses", "IngressClass"),
    cluster_wide("ipaddresses", "networking.k8s.io", "ipaddresses", "IPAddress"),
    namespaced("jobs", "batch", "jobs", "Job"),
    namespaced("leasecandidates", "coordination.k8s.io", "leasecandidates", "LeaseCandidate"),
    namespaced("leases", "coordination.k8s.io", "leases", "Lease"),
    namespaced("limitranges", "", "limitranges", "LimitRange"),
    cluster_wide("minions", "", "nodes", "Node"),
    cluster_wide("mutatingadmissionpolicies", "admissionregistration.k8s.io", "mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
    cluster_wide("mutatingadmissionpolicybindings", "admissionregistration.k8s.io", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
    cluster_wide("mutatingwebhookconfigurations", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    cluster_wide("namespaces", "", "namespaces", "Namespace"),
    namespaced("networkpolicies", "networking.k8s.io", "networkpolicies", "NetworkPolicy"),
    namespaced("persistentvolumeclaims", "", "persistentvolumeclaims", "PersistentVolumeClaim"),
    cluster_wide("persistentvolumes", "", "persistentvolumes", "PersistentVolume"),
    namespaced("podcertificaterequests", "certificates.k8s.io", "podcertificaterequests", "PodCertificateRequest"),
    namespaced("poddisruptionbudgets", "policy", "poddisruptionbudgets", "PodDisruptionBudget"),
    namespaced("pods", "", "pods", "Pod"),
    namespaced("podtemplates", "", "podtemplates", "PodTemplate"),
    cluster_wide("priorityclasses", "scheduling.k8s.io", "priorityclasses", "PriorityClass"),
    cluster_wide("prioritylevelconfigurations", "flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", "PriorityLevelConfiguration"),
    namespaced("replicasets", "apps", "replicasets", "ReplicaSet"),
    namespaced("resourceclaims", "resource.k8s.io", "resourceclaims", "ResourceClaim"),
    namespaced("resourceclaimtemplates", "resource.k8s.io", "resourceclaimtemplates", "ResourceClaimTemplate"),
    namespaced("resourcequotas", "", "resourcequotas", "ResourceQuota"),
    cluster_wide("resourceslices", "resource.k8s.io", "resourceslices", "ResourceSlice"),
    namespaced("rolebindings", "rbac.authorization.k8s.io", "rolebindings", "RoleBinding"),
    namespaced("roles", "rbac.authorization.k8s.io", "roles", "Role"),
    cluster_wide("runtimeclasses", "node.k8s.io", "runtimeclasses", "RuntimeClass"),
    namespaced("secrets", "", "secrets", "Secret"),
    namespaced("serviceaccounts", "", "serviceaccounts", "ServiceAccount"),
    cluster_wide("servicecidrs", "networking.k8s.io", "servicecidrs", "ServiceCIDR"),
    namespaced("services/endpoints", "", "endpoints", "Endpoints"),
    namespaced("services/specs", "", "services", "Service"),
    namespaced("statefulsets", "apps", "statefulsets", "StatefulSet"),
    cluster_wide("storageclasses", "storage.k8s.io", "storageclasses", "StorageClass"),
    cluster_wide("storageversionmigrations", "storagemigration.k8s.io", "storageversionmigrations", "StorageVersionMigration"),
    cluster_wide("storageversions", "internal.apiserver.k8s.io", "storageversions", "StorageVersion"),
    cluster_wide("validatingadmissionpolicies", "admissionregistration.k8s.io", "validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
    cluster_wide("validatingadmissionpolicybindings", "admissionregistration.k8s.io", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
    cluster_wide("validatingwebhookconfigurations", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    cluster_wide("volumeattachments", "storage.k8s.io", "volumeattachments", "VolumeAttachment"),
    cluster_wide("volumeattributesclasses", "storage.k8s.io", "volumeattributesclasses", "VolumeAttributesClass"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(etcd_key: &str, expected: &str) {
        let located = match locate("/registry", etcd_key.as_bytes()) {
            Located::Resource(Place { group, resource, kind, namespace, name }) => {
                let or = |text: Option<&str>| text.unwrap_or("?").to_owned();
                format!("{}|{resource}|{}|{namespace}|{name}", or(group), or(kind))
            }
            Located::Internal(internal) => format!("internal {}", internal.segment),
            Located::Outside => "outside".to_owned(),
        };
        assert_eq!(located, expected, "{etcd_key}");
    }

    #[test]
    fn paths_tell_resource_namespace_and_name() {
        check("/registry/secrets/shop/db", "|secrets|Secret|shop|db");
        check("/registry/deployments/shop/web", "apps|deployments|Deployment|shop|web");
        check("/registry/namespaces/shop", "|namespaces|Namespace||shop");
        check("/registry/minions/cp-1", "|nodes|Node||cp-1");
        check("/registry/services/specs/default/kubernetes", "|services|Service|default|kubernetes");
        check("/registry/services/endpoints/default/kubernetes", "|endpoints|Endpoints|default|kubernetes");
        check("/registry/controllers/shop/rc", "|replicationcontrollers|ReplicationController|shop|rc");
        check("/registry/ingress/shop/web", "networking.k8s.io|ingresses|Ingress|shop|web");
        check("/registry/events/shop/e1", "|events|Event|shop|e1");
        check("/registry/clusterroles/system:node", "rbac.authorization.k8s.io|clusterroles|ClusterRole||system:node");
        check("/registry/leases/kube-system/x", "coordination.k8s.io|leases|Lease|kube-system|x");
        check("/registry/cert-manager.io/issuers/shop/ca", "cert-manager.io|issuers|?|shop|ca");
        check("/registry/cert-manager.io/clusterissuers/ca", "cert-manager.io|clusterissuers|?||ca");
        check(
            "/registry/apiextensions.k8s.io/customresourcedefinitions/a.b.c",
            "apiextensions.k8s.io|customresourcedefinitions|CustomResourceDefinition||a.b.c",
        );
        check("/registry/apiregistration.k8s.io/apiservices/v1.apps", "apiregistration.k8s.io|apiservices|APIService||v1.apps");
        check("/registry/podsecuritypolicy/restricted", "?|podsecuritypolicy|?||restricted");
    }

    #[test]
    fn what_is_no_resource_is_told_apart() {
        check("/registry/masterleases/10.0.0.1", "internal masterleases");
        check("/registry/ranges/serviceips", "internal ranges");
        check("/registry/health", "internal health");
        check("/registry/", "internal ");
        check("/registry/secrets", "internal secrets");
        check("/registry/services/other", "?|services|?||other");
        check("/registry2/secrets/shop/db", "outside");
        check("compact_rev_key", "outside");
        check("/calico/resources/v3", "outside");
    }

    #[test]
    fn allocators_and_leases_go_through_other_resources_providers() {
        let stored_as = |key: &'static str| locate("/registry", key.as_bytes()).stored_as();
        assert_eq!(stored_as("/registry/ranges/serviceips"), Some(("", "services")));
        assert_eq!(stored_as("/registry/masterleases/10.0.0.1"), Some(("", "apiServerIPInfo")));
        assert_eq!(stored_as("/registry/ingress/shop/web"), Some(("networking.k8s.io", "ingresses")));
        assert_eq!(stored_as("/registry/podsecuritypolicy/restricted"), None);
        assert_eq!(stored_as("compact_rev_key"), None);
    }

    fn learn(keys: &[&str]) -> Option<String> {
        learn_prefix(keys.iter().map(|key| key.as_bytes()))
    }

    #[test]
    fn the_prefix_is_what_most_objects_share() {
        assert_eq!(learn(&["/registry/secrets/a/b", "/registry/pods/a/b", "compact_rev_key"]).as_deref(), Some("/registry"));
        assert_eq!(learn(&["/k8s/prod/minions/cp-1"]).as_deref(), Some("/k8s/prod"));
        // A namespace called nodes looks like a prefix, but not to most keys.
        let keys = ["/registry/configmaps/namespaces/x", "/registry/secrets/shop/db", "/registry/pods/shop/web"];
        assert_eq!(learn(&keys).as_deref(), Some("/registry"));
        assert_eq!(learn(&["/other/secrets/a/b", "/registry/pods/a/b", "/registry/pods/a/c"]).as_deref(), Some("/registry"));
        assert_eq!(learn(&["compact_rev_key", "/calico/x/y", "/secrets", "/registry/secrets/onlyone"]), None);
        assert_eq!(learn(&[]), None);
    }

    #[test]
    fn the_table_is_sorted_and_without_doubles() {
        assert!(BUILTINS.is_sorted_by(|a, b| a.path < b.path));
        let mut names: Vec<_> = BUILTINS.iter().map(|builtin| (builtin.group, builtin.resource)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), BUILTINS.len());
        assert_eq!(builtin("", "nodes").map(|builtin| builtin.path), Some("minions"));
        assert_eq!(builtin("apps", "nodes"), None);
    }
}
