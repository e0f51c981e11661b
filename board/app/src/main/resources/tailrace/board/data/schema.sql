-- RUBBoS's tables and indexes. Statements end with a semicolon at the end of a line. general_ci compares nicknames as
-- RUBBoS's MySQL did, without regard to case.

CREATE TABLE categories (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(50) NOT NULL
) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;

CREATE TABLE users (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  firstname VARCHAR(20) NOT NULL,
  lastname VARCHAR(20) NOT NULL,
  nickname VARCHAR(20) NOT NULL,
  password VARCHAR(20) NOT NULL,
  email VARCHAR(50) NOT NULL,
  rating INT NOT NULL,
  access INT NOT NULL,
  creation_date DATETIME NOT NULL,
  UNIQUE KEY nickname (nickname),
  KEY login (nickname, password)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;

CREATE TABLE stories (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  title VARCHAR(100) NOT NULL,
  body TEXT NOT NULL,
  date DATETIME NOT NULL,
  writer INT NOT NULL,
  category INT NOT NULL,
  KEY writer (writer),
  KEY category (category),
  KEY title (title(10)),
  KEY date (date)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;

CREATE TABLE old_stories LIKE stories;

CREATE TABLE submissions (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  title VARCHAR(100) NOT NULL,
  body TEXT NOT NULL,
  date DATETIME NOT NULL,
  writer INT NOT NULL,
  category INT NOT NULL,
  KEY writer (writer),
  KEY category (category),
  KEY date (date)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;

CREATE TABLE comments (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  writer INT NOT NULL,
  story_id INT NOT NULL,
  parent INT NOT NULL,
  replies INT NOT NULL,
  rating INT NOT NULL,
  date DATETIME NOT NULL,
  subject VARCHAR(100) NOT NULL,
  body TEXT NOT NULL,
  KEY story_id (story_id),
  KEY subject (subject(10)),
  KEY parent (parent),
  KEY rating (rating)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;

CREATE TABLE old_comments LIKE comments;

CREATE TABLE moderator_log (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  moderator_id INT NOT NULL,
  comment_id INT NOT NULL,
  rating INT NOT NULL,
  date DATETIME NOT NULL,
  KEY comment_id (comment_id)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;

-- What the data were made from, and the checksums of the tables as they were then.
CREATE TABLE facts (
  name VARCHAR(50) NOT NULL PRIMARY KEY,
  value VARCHAR(500) NOT NULL
) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
