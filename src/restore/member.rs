//! Which member of which cluster a data directory is for. Pure.

use std::fmt;

use serde::Serialize;

use crate::base::codes;
use crate::base::failure::Failure;

/// A host name is as long as this at most, and members are called after hosts.
const NAME_LIMIT: usize = 253;

/// A member by name, in a list of members that has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Membership {
    pub name: String,
    /// All members, in the order given, each with its peer URLs.
    pub cluster: Vec<Peer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Peer {
    pub name: String,
    pub urls: Vec<String>,
}

impl Membership {
    /// Reads what somebody wrote: `initial_cluster` as etcd takes it, or the
    /// peer URLs of a member that is alone.
    ///
    /// # Errors
    /// `restore.member` with the first thing that is wrong.
    pub fn of(name: Option<&str>, peer_urls: &[String], initial_cluster: Option<&str>) -> Result<Self, Failure> {
        let name = name.ok_or_else(|| wrong("--name", "a data directory is for a named member"))?;
        check_name("--name", name)?;
        for url in peer_urls {
            check_url("--peer-url", url)?;
        }
        let cluster = match initial_cluster {
            Some(list) => read_list(list)?,
            None if peer_urls.is_empty() => {
                let cause = "where other members reach this one must be said: etcd writes it into the data directory";
                return Err(
                    wrong("--peer-url", cause).next("add --peer-url https://HOST:2380, or --initial-cluster for all members")
                );
            }
            None => vec![Peer { name: name.to_owned(), urls: peer_urls.to_vec() }],
        };
        check_distinct(&cluster)?;
        let Some(own) = cluster.iter().find(|peer| peer.name == name) else {
            let known: Vec<_> = cluster.iter().map(|peer| peer.name.as_str()).collect();
            return Err(wrong(name, &format!("--initial-cluster does not have it, but {}", known.join(", "))));
        };
        let (mut said, mut listed) = (peer_urls.to_vec(), own.urls.clone());
        said.sort();
        listed.sort();
        if !said.is_empty() && said != listed {
            let cause = format!("--peer-url says {}, and --initial-cluster {}", said.join(","), listed.join(","));
            return Err(wrong(name, &cause));
        }
        Ok(Self { name: name.to_owned(), cluster })
    }

    /// The peer URLs of the member, as etcd takes them.
    #[must_use]
    pub fn peer_urls(&self) -> String {
        let own = self.cluster.iter().find(|peer| peer.name == self.name);
        own.map(|peer| peer.urls.join(",")).unwrap_or_default()
    }

    /// The other members.
    pub fn others(&self) -> impl Iterator<Item = &Peer> {
        self.cluster.iter().filter(|peer| peer.name != self.name)
    }
}

impl fmt::Display for Membership {
    /// As `--initial-cluster` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.cluster.iter().flat_map(|peer| peer.urls.iter().map(|url| format!("{}={url}", peer.name)));
        f.write_str(&pairs.collect::<Vec<_>>().join(","))
    }
}

fn wrong(object: &str, cause: &str) -> Failure {
    Failure::new(&codes::RESTORE_MEMBER, object, cause)
}

fn read_list(list: &str) -> Result<Vec<Peer>, Failure> {
    let mut cluster: Vec<Peer> = Vec::new();
    for pair in list.split(',') {
        let (name, url) = pair.split_once('=').ok_or_else(|| wrong("--initial-cluster", &format!("{pair:?} is no NAME=URL")))?;
        check_name("--initial-cluster", name)?;
        check_url("--initial-cluster", url)?;
        match cluster.iter_mut().find(|peer| peer.name == name) {
            Some(peer) => peer.urls.push(url.to_owned()),
            None => cluster.push(Peer { name: name.to_owned(), urls: vec![url.to_owned()] }),
        }
    }
    Ok(cluster)
}

fn check_distinct(cluster: &[Peer]) -> Result<(), Failure> {
    let mut urls: Vec<_> = cluster.iter().flat_map(|peer| &peer.urls).collect();
    urls.sort();
    match urls.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(wrong(pair[0], "two members, or one twice, would have this URL")),
        None => Ok(()),
    }
}

fn check_name(place: &str, name: &str) -> Result<(), Failure> {
    let is_name = (1..=NAME_LIMIT).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if is_name {
        return Ok(());
    }
    Err(wrong(place, &format!("{name:?} is no member's name: letters, digits, '.', '_' and '-', a letter or digit first")))
}

/// `https://HOST:PORT`, and nothing behind it: etcd compares URLs as texts.
fn check_url(place: &str, url: &str) -> Result<(), Failure> {
    let bad = |cause: &str| Err(wrong(place, &format!("{url:?} {cause}")));
    let parsed = url.parse::<http::Uri>();
    let Ok(parsed) = parsed else { return bad("is no URL") };
    if !matches!(parsed.scheme_str(), Some("http" | "https")) {
        return bad("does not begin with https:// or http://");
    }
    let Some(authority) = parsed.authority() else { return bad("names no host") };
    if authority.host().is_empty() || authority.as_str().contains('@') {
        return bad("names no host");
    }
    if authority.port_u16().is_none_or(|port| port == 0) {
        return bad("has no port");
    }
    if format!("{}://{authority}", parsed.scheme_str().unwrap_or_default()) != url {
        return bad("has something behind its port");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, urls: &[&str], list: Option<&str>) -> Result<Membership, String> {
        let urls: Vec<_> = urls.iter().map(|url| (*url).to_owned()).collect();
        Membership::of(Some(name), &urls, list).map_err(|failure| {
            assert_eq!(failure.code(), &codes::RESTORE_MEMBER);
            format!("{}: {}", failure.object(), failure.cause())
        })
    }

    #[test]
    fn a_member_is_alone_or_in_a_list_that_has_it() {
        let alone = of("m1", &["https://10.0.0.1:2380"], None).unwrap();
        assert_eq!(
            (alone.to_string().as_str(), alone.peer_urls().as_str()),
            ("m1=https://10.0.0.1:2380", "https://10.0.0.1:2380")
        );
        let list = "m1=https://a:2380,m2=https://b:2380,m1=http://a:12380";
        let one = of("m1", &[], Some(list)).unwrap();
        assert_eq!(one.peer_urls(), "https://a:2380,http://a:12380");
        assert_eq!(one.to_string(), "m1=https://a:2380,m1=http://a:12380,m2=https://b:2380");
        assert_eq!(one.others().map(|peer| peer.name.as_str()).collect::<Vec<_>>(), ["m2"]);
        assert!(of("m1", &["http://a:12380", "https://a:2380"], Some(list)).is_ok(), "in any order");
        assert!(of("m1", &["https://[::1]:2380"], None).is_ok());
    }

    #[test]
    fn what_makes_no_cluster_is_refused() {
        for (name, urls, list, part) in [
            ("m3", &[][..], Some("m1=https://a:2380,m2=https://b:2380"), "does not have it, but m1, m2"),
            ("m1", &[], None, "where other members reach this one"),
            ("m1", &["https://a:2380"], Some("m1=https://b:2380"), "--peer-url says"),
            ("m1", &[], Some("m1=https://a:2380,m2=https://a:2380"), "would have this URL"),
            ("m1", &[], Some("m1"), "no NAME=URL"),
            ("m1", &[], Some(""), "no NAME=URL"),
            ("", &["https://a:2380"], None, "no member's name"),
            ("m 1", &["https://a:2380"], None, "no member's name"),
            ("m,1", &["https://a:2380"], None, "no member's name"),
            ("m=1", &["https://a:2380"], None, "no member's name"),
            ("../m", &["https://a:2380"], None, "no member's name"),
            ("-m", &["https://a:2380"], None, "no member's name"),
            ("m1", &["a:2380"], None, "does not begin"),
            ("m1", &["unix://run:1"], None, "does not begin"),
            ("m1", &["https://a"], None, "no port"),
            ("m1", &["https://a:0"], None, "no port"),
            ("m1", &["https://a:2380/"], None, "behind its port"),
            ("m1", &["https://a:2380?x"], None, "behind its port"),
            ("m1", &["https://u:p@a:2380"], None, "names no host"),
            ("m1", &["https://a:2380 "], None, "is no URL"),
        ] {
            let refused = of(name, urls, list).unwrap_err();
            assert!(refused.contains(part), "{name} {urls:?} {list:?}: {refused}");
        }
        assert!(Membership::of(None, &[], None).is_err());
    }
}
