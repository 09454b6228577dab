"""What looks after workers and workflows: who is lost, who may go on, what has failed, and what is repaired."""
