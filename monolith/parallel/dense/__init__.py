"""What both sides of dense parameters on parameter servers share: requests, layout, tensors as bytes."""
