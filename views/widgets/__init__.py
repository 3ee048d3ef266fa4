"""The parts that every chapter draws with: HTML, charts, controls, and the bar at the top."""
