//! Would an API server read every live object?
