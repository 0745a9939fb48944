"""What the server says of its own requests and answers: /openapi.json for programs, /docs for people."""
