//! Values that must never be printed.

use secrecy::{ExposeSecret, SecretBox};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// A secret value: no `Display`, no `Serialize`, a `Debug` that redacts, wiped
/// on drop, compared in constant time, read only through [`Secret::expose`].
pub struct Secret<T: Zeroize>(SecretBox<T>);

impl<T: Zeroize> Secret<T> {
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(SecretBox::new(Box::new(value)))
    }

    /// The value itself. Every call is a place to review.
    #[must_use]
    pub fn expose(&self) -> &T {
        self.0.expose_secret()
    }
}

impl<T: Zeroize + Clone> Clone for Secret<T> {
    fn clone(&self) -> Self {
        Self::new(self.expose().clone())
    }
}

impl<T: Zeroize> std::fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl<T: Zeroize + AsRef<[u8]>> PartialEq for Secret<T> {
    fn eq(&self, other: &Self) -> bool {
        self.expose().as_ref().ct_eq(other.expose().as_ref()).into()
    }
}

impl<T: Zeroize + AsRef<[u8]>> Eq for Secret<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing_of_the_value() {
        let secret = Secret::new(b"hunter2-hunter2".to_vec());
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }

    #[test]
    fn equality_is_by_value() {
        assert_eq!(Secret::new(vec![1_u8, 2]), Secret::new(vec![1_u8, 2]));
        assert_ne!(Secret::new(vec![1_u8, 2]), Secret::new(vec![1_u8, 3]));
    }
}
