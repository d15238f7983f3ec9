"""Full disks and kills, for each command that writes: what is there afterwards."""
