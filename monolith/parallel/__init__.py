"""The same tables elsewhere: parameter servers, and tables split over ranks."""
