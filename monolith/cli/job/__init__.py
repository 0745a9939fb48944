"""Jobs of several processes on this machine: started, watched, and asked how they are."""
