//! Records: their exact bytes, and signatures against the real `ssh-keygen`.

mod golden;
mod ssh_keygen;
