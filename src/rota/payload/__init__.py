"""Arguments of jobs as bytes: what may travel, and how."""
