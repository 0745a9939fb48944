"""What a parameter server holds."""
