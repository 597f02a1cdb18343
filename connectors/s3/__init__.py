"""S3: immutable bytes under content-addressed keys. One client, few verbs, its errors mapped to ours."""
